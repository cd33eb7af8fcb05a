//go:build vm

package test

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// perfForever is an option for runs that don't come to their end.
const perfForever = " -D 3600"

// TestPerfPeerKilled: an end whose peer dies in the middle says so and leaves.
func TestPerfPeerKilled(t *testing.T) {
	only612(t)
	for _, test := range []struct {
		link       perfLink
		name, line string
	}{
		{perfRxe, "send lat", ""}, {perfRxe, "send lat", "-e"}, {perfRxe, "write lat", ""}, {perfRxe, "send bw", "-c UD -s 100"},
		{perfRxe, "read bw", ""}, {perfSiwCM, "send bw", "-e"}, {perfSiwCM, "write lat", ""}, {perfSiwCM, "send bw", "-b"},
		{perfRxeCM, "write bw", "-b"},
	} {
		for _, victim := range []string{"client", "server"} {
			t.Run(test.link.name+" "+test.name+" "+test.line+" "+victim, func(t *testing.T) {
				test.link.up(t)
				noLeak(t)
				line := test.line + perfForever
				server := test.link.serve(t, test.link.perf("Go", test.name, line))
				cmd := test.link.perf("Go", test.name, line)
				cmd.Args = append(cmd.Args, test.link.host)
				client := launch(t, cmd)
				client.until("#bytes")
				victims := map[string]*running{"client": client, "server": server}
				survivor := victims[map[string]string{"client": "server", "server": "client"}[victim]]
				victims[victim].Process.Kill()
				victims[victim].end()
				out := survivor.end()
				if out.Code != 1 || !strings.HasPrefix(out.Err, "rdmalink: ") || strings.Count(out.Err, "\n") != 1 {
					t.Errorf("%+v", out)
				}
			})
		}
	}
}

// TestPerfInterrupt ends either side, before and in the middle: the other hears
// why.
func TestPerfInterrupt(t *testing.T) {
	only612(t)
	type test struct{ name, line, victim string }
	for l, tests := range map[perfLink][]test{
		perfRxe:   {{"send lat", "", "client"}, {"read bw", "", "server"}},
		perfRxeCM: {{"send bw", "-e", "server"}, {"read bw", "", "client"}},
		perfSiwCM: {{"send lat", "", "client"}, {"send bw", "-e", "server"}, {"read bw", "", "server"}},
	} {
		t.Run(l.name, func(t *testing.T) {
			l.up(t)
			noLeak(t)
			alone := l.serve(t, l.perf("Go", "send lat", ""))
			alone.Process.Signal(syscall.SIGINT)
			failed(t, alone.end(), "interrupted")
			for _, test := range tests {
				interruptPerf(t, l, test.name, test.line+" "+perfForever, test.victim)
			}
		})
	}
}

func interruptPerf(t *testing.T, l perfLink, name, line, victim string) {
	t.Helper()
	ends := make(map[string]*running)
	ends["server"] = l.serve(t, l.perf("Go", name, line))
	cmd := l.perf("Go", name, line)
	cmd.Args = append(cmd.Args, l.host)
	ends["client"] = launch(t, cmd)
	ends[victim].until("#bytes")
	ends[victim].Process.Signal(syscall.SIGTERM)
	for role, end := range ends {
		if out := end.end(); out.Code != 1 || !strings.HasPrefix(out.Err, "rdmalink: ") || !strings.Contains(out.Err, "interrupted") {
			t.Errorf("%s %s, the %s interrupted; the %s: %+v", l.name, name, victim, role, out)
		}
	}
}

// TestPerfUnlike: ends with different options detect it. All wait for it
// at the same time, and those that wait for seconds sleep.
func TestPerfUnlike(t *testing.T) {
	only612(t)
	rxeFabric(t)
	tests := []struct{ name, server, client, serverSays, clientSays string }{
		{"number of QPs", "send bw -n 20 -q 2", "send bw -n 20 -q 3", "were both given the same options?", "were both given the same options?"},
		{"size", "send bw -n 20 -s 100", "send bw -n 20 -s 200", "do both ends have the same options?", "do both ends have the same options?"},
		{"number of messages received", "send bw -n 30 -e", "send bw -n 20 -e", "the peer is done, but this end is not: were both given the same options?", "were both given the same options?"},
		{"lost datagrams", "send bw -n 30 -c UD -r 30 -e", "send bw -n 20 -c UD -r 30 -e", "the peer is done, but not all that it sent has arrived", ""},
		{"address family", fmt.Sprint("send lat -n 20 -x ", rxeGIDIndex(t, rxeIPv6)), "send lat -n 20", "are of different address families", "are of different address families"},
	}
	noLeak(t)
	var servers, clients []*running
	for i, test := range tests {
		port := 18515 + i
		command := func(line string) *exec.Cmd {
			words := strings.Fields(line)
			return perfRxe.perf("Go", strings.Join(words[:2], " "), fmt.Sprint(strings.Join(words[2:], " "), " -p ", port))
		}
		servers = append(servers, servePort(t, command(test.server), port))
		client := command(test.client)
		client.Args = append(client.Args, perfRxe.host)
		clients = append(clients, launch(t, client))
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			failed(t, clients[i].end(), test.clientSays)
			failed(t, servers[i].end(), test.serverSays)
		})
	}
}

// TestPerfUnable: tests that the device which rdma_cm found does not support.
func TestPerfUnable(t *testing.T) {
	only612(t)
	fabric(t)
	for test, want := range map[string]string{"atomic lat": dummyLink + " has no atomics", "send bw -c UD": dummyLink + " is iWARP, which has RC only"} {
		noLeak(t)
		words := strings.Fields(test)
		name, line := strings.Join(words[:2], " "), strings.Join(words[2:], " ")
		serverOut, clientOut := perfSiwCM.play(t, perfSiwCM.perf("Go", name, line), perfSiwCM.perf("Go", name, line))
		failed(t, serverOut, want)
		failed(t, clientOut, want)
	}
}

// TestPerfDevices: operations that a device or its port does not support fail before either end waits.
func TestPerfDevices(t *testing.T) {
	only612(t)
	fabric(t)
	rxeFabric(t)
	noLeak(t)
	for line, want := range map[string]string{
		"send lat -d " + dummyLink:                  dummyLink + ": iWARP connects QPs through rdma_cm only: give -R",
		"send lat -d nothere":                       "nothere",
		"send bw -i 9 -d " + rxeLink + " 127.0.0.1": "-i 9",
	} {
		failed(t, rdmalink(t, "perf "+line), want)
	}
}
