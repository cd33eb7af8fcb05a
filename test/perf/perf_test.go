//go:build vm

package perf

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
)

// perfForever is an option for runs that don't come to their end.
const perfForever = " -D 3600"

// TestPerfPeerKilled checks that an end whose peer dies in the middle says so and leaves.
func TestPerfPeerKilled(t *testing.T) {
	kit.Only612(t)
	for _, test := range []struct {
		link       kit.PerfLink
		name, line string
	}{
		{kit.PerfRxe, "send lat", ""}, {kit.PerfRxe, "send lat", "-e"}, {kit.PerfRxe, "write lat", ""}, {kit.PerfRxe, "send bw", "-c UD -s 100"},
		{kit.PerfRxe, "read bw", ""}, {kit.PerfSiwCM, "send bw", "-e"}, {kit.PerfSiwCM, "write lat", ""}, {kit.PerfSiwCM, "send bw", "-b"},
		{kit.PerfRxeCM, "write bw", "-b"},
	} {
		for _, victim := range []string{"client", "server"} {
			t.Run(test.link.Name+" "+test.name+" "+test.line+" "+victim, func(t *testing.T) {
				test.link.Up(t)
				kit.NoLeak(t)
				line := test.line + perfForever
				server := serve(test.link, t, perf(test.link, "Go", test.name, line))
				cmd := perf(test.link, "Go", test.name, line)
				cmd.Args = append(cmd.Args, test.link.Host)
				client := kit.Launch(t, cmd)
				client.Until("#bytes")
				victims := map[string]*kit.Running{"client": client, "server": server}
				survivor := victims[map[string]string{"client": "server", "server": "client"}[victim]]
				victims[victim].Process.Kill()
				victims[victim].End()
				out := survivor.End()
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
	kit.Only612(t)
	type test struct{ name, line, victim string }
	for l, tests := range map[kit.PerfLink][]test{
		kit.PerfRxe:   {{"send lat", "", "client"}, {"read bw", "", "server"}},
		kit.PerfRxeCM: {{"send bw", "-e", "server"}, {"read bw", "", "client"}},
		kit.PerfSiwCM: {{"send lat", "", "client"}, {"send bw", "-e", "server"}, {"read bw", "", "server"}},
	} {
		t.Run(l.Name, func(t *testing.T) {
			l.Up(t)
			kit.NoLeak(t)
			alone := serve(l, t, perf(l, "Go", "send lat", ""))
			alone.Process.Signal(syscall.SIGINT)
			failed(t, alone.End(), "interrupted")
			for _, test := range tests {
				interruptPerf(t, l, test.name, test.line+" "+perfForever, test.victim)
			}
		})
	}
}

func interruptPerf(t *testing.T, l kit.PerfLink, name, line, victim string) {
	t.Helper()
	ends := make(map[string]*kit.Running)
	ends["server"] = serve(l, t, perf(l, "Go", name, line))
	cmd := perf(l, "Go", name, line)
	cmd.Args = append(cmd.Args, l.Host)
	ends["client"] = kit.Launch(t, cmd)
	ends[victim].Until("#bytes")
	ends[victim].Process.Signal(syscall.SIGTERM)
	for role, end := range ends {
		if out := end.End(); out.Code != 1 || !strings.HasPrefix(out.Err, "rdmalink: ") || !strings.Contains(out.Err, "interrupted") {
			t.Errorf("%s %s, the %s interrupted; the %s: %+v", l.Name, name, victim, role, out)
		}
	}
}

// TestPerfUnlike checks that ends with different options detect it. All wait for it at the same time, and those that
// wait for seconds sleep.
func TestPerfUnlike(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	tests := []struct{ name, server, client, serverSays, clientSays string }{
		{"number of QPs", "send bw -n 20 -q 2", "send bw -n 20 -q 3", "were both given the same options?", "were both given the same options?"},
		{"size", "send bw -n 20 -s 100", "send bw -n 20 -s 200", "do both ends have the same options?", "do both ends have the same options?"},
		{"number of messages received", "send bw -n 30 -e", "send bw -n 20 -e", "the peer is done, but this end is not: were both given the same options?", "were both given the same options?"},
		{"lost datagrams", "send bw -n 30 -c UD -r 30 -e", "send bw -n 20 -c UD -r 30 -e", "the peer is done, but not all of its messages arrived", ""},
		{"address family", fmt.Sprint("send lat -n 20 -x ", rxeGIDIndex(t, kit.RxeIPv6)), "send lat -n 20", "are of different address families", "are of different address families"},
	}
	kit.NoLeak(t)
	var servers, clients []*kit.Running
	for i, test := range tests {
		port := 18515 + i
		command := func(line string) *exec.Cmd {
			words := strings.Fields(line)
			return perf(kit.PerfRxe, "Go", strings.Join(words[:2], " "), fmt.Sprint(strings.Join(words[2:], " "), " -p ", port))
		}
		servers = append(servers, kit.ServePort(t, command(test.server), port))
		client := command(test.client)
		client.Args = append(client.Args, kit.PerfRxe.Host)
		clients = append(clients, kit.Launch(t, client))
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			failed(t, clients[i].End(), test.clientSays)
			failed(t, servers[i].End(), test.serverSays)
		})
	}
}

// TestPerfUnable runs tests that the device which rdma_cm found does not support.
func TestPerfUnable(t *testing.T) {
	kit.Only612(t)
	kit.Fabric(t)
	for test, want := range map[string]string{"atomic lat": kit.DummyLink + " has no atomics", "send bw -c UD": kit.DummyLink + " is iWARP, which has RC only"} {
		kit.NoLeak(t)
		words := strings.Fields(test)
		name, line := strings.Join(words[:2], " "), strings.Join(words[2:], " ")
		serverOut, clientOut := play(kit.PerfSiwCM, t, perf(kit.PerfSiwCM, "Go", name, line), perf(kit.PerfSiwCM, "Go", name, line))
		failed(t, serverOut, want)
		failed(t, clientOut, want)
	}
}

// TestPerfDevices checks that operations that a device or its port does not support fail before either end waits.
func TestPerfDevices(t *testing.T) {
	kit.Only612(t)
	kit.Fabric(t)
	kit.RxeFabric(t)
	kit.NoLeak(t)
	for line, want := range map[string]string{
		"send lat -d " + kit.DummyLink:                  kit.DummyLink + ": iWARP connects QPs through rdma_cm only: give -R",
		"send lat -d nothere":                           "nothere",
		"send bw -i 9 -d " + kit.RxeLink + " 127.0.0.1": "-i 9",
	} {
		failed(t, kit.Rdmalink(t, "perf "+line), want)
	}
}

// TestPerfBandwidthShapes tests many QPs, lists, completions for many, both directions, inline data, and depths that
// make the sender wait for the receiver.
func TestPerfBandwidthShapes(t *testing.T) {
	kit.Only612(t)
	for _, test := range []struct {
		link       kit.PerfLink
		name, line string
		messages   int
	}{
		{kit.PerfRxe, "send bw", "-n 30 -s 100 -q 5 -r 8", 150},
		{kit.PerfRxe, "write bw", "-n 40 -s 100 -l 20 -Q 10 -q 3", 120},
		{kit.PerfRxe, "write bw", "-n 50 -s 64 -I 64 -Q 7 -t 16", 50},
		{kit.PerfRxe, "read bw", "-n 40 -b -q 2 -o 2 --perform_warm_up", 80},
		{kit.PerfRxe, "send bw", "-n 30 -b -q 2 -s 200 -e", 60},
		{kit.PerfRxe, "atomic bw", "-n 30 -A CMP_AND_SWAP -t 4", 30},
		{kit.PerfSiwCM, "send bw", "-n 12 -q 64 -s 10 -r 6 -t 20 -Q 4", 768},
		{kit.PerfSiwCM, "send bw", "-n 60 -q 3 -s 10 -r 3 -t 10 -b -e", 180},
		{kit.PerfSiwCM, "send bw", "-n 150 -s 5000 -r 50 -l 5 -e", 150},
		{kit.PerfSiwCM, "write bw", "-n 50 -s 4096 -b -q 8 -Q 16 -t 20 -N", 400},
		{kit.PerfSiwCM, "read bw", "-n 10 -s 1M -t 2", 10},
	} {
		t.Run(fmt.Sprintf("%s: %s %s", test.link.Name, test.name, test.line), func(t *testing.T) {
			test.link.Up(t)
			server, client := perfed(t, test.link, test.name, test.line)
			for _, j := range []perfJSON{server, client} {
				if len(j.Results) != 1 || j.Results[0]["iterations"] != float64(test.messages) {
					t.Errorf("%s: %v, want %d messages", j.Role, j.Results, test.messages)
				}
			}
			if peak, ok := client.Results[0]["bw_peak_bytes_per_sec"].(float64); ok == strings.Contains(test.line, "-N") || peak < 0 {
				t.Errorf("peak %v", client.Results[0])
			}
		})
	}
}

// TestPerfAllSizes checks that -a measures all sizes, of datagrams those up to the MTU.
func TestPerfAllSizes(t *testing.T) {
	kit.Only612(t)
	for _, test := range []struct {
		link       kit.PerfLink
		name, line string
		largest    float64
	}{
		{kit.PerfRxe, "send lat", "-c UD", 1024}, {kit.PerfRxe, "send bw", "-c UD -b", 1024},
		{kit.PerfSiwCM, "send bw", "", 1 << 23}, {kit.PerfSiwCM, "write lat", "", 1 << 23}, {kit.PerfSiwCM, "read bw", "-b", 1 << 23},
	} {
		t.Run(test.link.Name+" "+test.name+" "+test.line, func(t *testing.T) {
			test.link.Up(t)
			_, client := perfed(t, test.link, test.name, "-n 5 -a "+test.line)
			want := 2.0
			for _, r := range client.Results {
				if r["size_bytes"] != want {
					t.Fatalf("size %v, want %v", r["size_bytes"], want)
				}
				want *= 2
			}
			if want != 2*test.largest {
				t.Errorf("the last size is %v", want/2)
			}
		})
	}
}

// TestPerfDuration checks that the time ends a test of either kind.
func TestPerfDuration(t *testing.T) {
	kit.Only612(t)
	kit.Fabric(t)
	for _, name := range []string{"send lat", "write lat -s 100", "read lat -e", "send bw -s 1000", "send bw -s 1000 -b -e", "write bw -s 1000 -b"} {
		t.Run(name, func(t *testing.T) {
			kit.NoLeak(t)
			test, line := strings.Join(strings.Fields(name)[:2], " "), strings.Join(strings.Fields(name)[2:], " ")+" -j"
			serverOut, clientOut := playLonger(t, func(duration string) (serverOut, clientOut kit.Output) {
				return play(kit.PerfSiwCM, t, perf(kit.PerfSiwCM, "Go", test, line+duration), perf(kit.PerfSiwCM, "Go", test, line+duration))
			})
			if serverOut.Code != 0 || clientOut.Code != 0 {
				t.Fatalf("%+v\n%+v", serverOut, clientOut)
			}
			j := decodePerf(t, clientOut)
			if strings.Contains(test, "lat") {
				j.has(t, 0, "iterations", "t_avg_usec", "tps")
			} else {
				j.has(t, 0, perfColumns["bw"]...)
			}
		})
	}
}

// perfNothingDone is the message of an end that completed nothing in its time, as may happen on a
// busy machine.
const perfNothingDone = "give -D more time"

// playLonger begins with a second, and gives more to runs in which nothing was done.
func playLonger(t *testing.T, play func(duration string) (serverOut, clientOut kit.Output)) (serverOut, clientOut kit.Output) {
	t.Helper()
	for seconds := 1; ; seconds *= 2 {
		serverOut, clientOut = play(fmt.Sprint(" -D ", seconds))
		if seconds > 60 || !strings.Contains(serverOut.Err+clientOut.Err, perfNothingDone) {
			return serverOut, clientOut
		}
	}
}

// TestPerfSamples checks that -H and -U print each latency, all but the two that count nowhere sorted, all of them as
// they came.
func TestPerfSamples(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	samples := func(j perfJSON) (all []float64) {
		for _, v := range j.Results[0]["samples_usec"].([]any) {
			all = append(all, v.(float64))
		}
		return all
	}
	_, sorted := perfed(t, kit.PerfRxe, "read lat", "-n 20 -H")
	if all := samples(sorted); len(all) != 17 || !slices.IsSorted(all) || all[0] != sorted.Results[0]["t_min_usec"] {
		t.Errorf("%v", sorted.Results)
	}
	_, unsorted := perfed(t, kit.PerfRxe, "read lat", "-n 20 -U")
	if all := samples(unsorted); len(all) != 19 || slices.Min(all) != unsorted.Results[0]["t_min_usec"] {
		t.Errorf("%v", unsorted.Results)
	}
	_, out := play(kit.PerfRxe, t, perf(kit.PerfRxe, "Go", "read lat", "-n 20"), perf(kit.PerfRxe, "Go", "read lat", "-n 20 -U"))
	if !strings.Contains(out.Out, "#, usec\n1, ") || !strings.Contains(out.Out, "\n19, ") || strings.Contains(out.Out, "\n20, ") {
		t.Errorf("%+v", out)
	}
}

// perfPort is perftest's, and ours.
const perfPort = "18515"

// patientRxe has RC wait 4 seconds for an acknowledgement, not 67 ms. Nothing is lost
// here, but a busy machine can be late, and rxe does not always survive that it sends
// a message of several packets again; see stream.
const patientRxe = " -u 20"

// perf is perftest's program for a test such as "send lat", or ours.
func perf(l kit.PerfLink, program, test, line string) *exec.Cmd {
	words := []string{kit.RdmalinkBin, "perf"}
	if program == "C" {
		words = []string{"ib_" + strings.ReplaceAll(test, " ", "_")}
		test = "-F"
	}
	if l.Cm {
		line += " -R"
	} else {
		line += patientRxe
	}
	words = append(words, strings.Fields(test+" -d "+l.Device+" "+line)...)
	return exec.Command(words[0], words[1:]...)
}

// serve starts a server and waits until it listens.
func serve(l kit.PerfLink, t *testing.T, cmd *exec.Cmd) *kit.Running {
	t.Helper()
	if l.Cm {
		return kit.ServeCM(t, cmd, perfPort)
	}
	return kit.ServePort(t, cmd, 18515)
}

// play runs a server and a client to their end.
func play(l kit.PerfLink, t *testing.T, server, client *exec.Cmd) (serverOut, clientOut kit.Output) {
	t.Helper()
	client.Args = append(client.Args, l.Host)
	running := serve(l, t, server)
	clientOut = kit.Launch(t, client).End()
	return running.End(), clientOut
}

// perfJSON is what -j prints.
type perfJSON struct {
	Test, Role, Device, Driver, Connection, Error string
	CM                                            bool `json:"rdma_cm"`
	Events                                        bool
	Local, Remote                                 []struct {
		LID, QPN, PSN uint32
		GID           string
	}
	Results []map[string]any
}

func decodePerf(t *testing.T, out kit.Output) (j perfJSON) {
	t.Helper()
	if err := json.Unmarshal([]byte(out.Out), &j); err != nil || strings.Count(out.Out, "\n") != 1 {
		t.Fatalf("%v: %+v", err, out)
	}
	return j
}

// has reports whether a result has these figures, all greater than zero. Samples may be
// equal where the clock is coarse.
func (j perfJSON) has(t *testing.T, i int, names ...string) {
	t.Helper()
	for _, name := range names {
		if v, ok := j.Results[i][name].(float64); !ok || v <= 0 && name != "t_stdev_usec" {
			t.Errorf("%s: %s of result %d: %v", j.Test, name, i, j.Results[i])
		}
	}
}

var perfColumns = map[string][]string{
	"lat": {"size_bytes", "iterations", "t_min_usec", "t_max_usec", "t_typical_usec", "t_avg_usec", "t_stdev_usec", "p99_usec", "p99_9_usec"},
	"bw":  {"size_bytes", "iterations", "bw_average_bytes_per_sec", "msg_rate_per_sec"},
}

// perfed runs rdmalink perf at both ends and checks the output.
func perfed(t *testing.T, l kit.PerfLink, test, line string) (server, client perfJSON) {
	t.Helper()
	kit.NoLeak(t)
	serverOut, clientOut := play(l, t, perf(l, "Go", test, line+" -j"), perf(l, "Go", test, line+" -j"))
	if serverOut.Code != 0 || clientOut.Code != 0 || serverOut.Err+clientOut.Err != "" {
		t.Fatalf("%s %s: server %+v, client %+v", test, line, serverOut, clientOut)
	}
	server, client = decodePerf(t, serverOut), decodePerf(t, clientOut)
	_, kind, _ := strings.Cut(test, " ")
	for _, j := range []perfJSON{server, client} {
		if j.Test != test || j.Device != l.Device || j.CM != l.Cm || j.Events != strings.Contains(line, "-e") {
			t.Errorf("%s %s: %+v", test, line, j)
		}
		for i := range j.Results {
			j.has(t, i, perfColumns[kind]...)
		}
	}
	if server.Role != "server" || client.Role != "client" || len(client.Results) == 0 {
		t.Errorf("%+v\n%+v", server, client)
	}
	if diff := cmp.Diff(server.Local, client.Remote) + cmp.Diff(server.Remote, client.Local); diff != "" {
		t.Errorf("%s %s: the ends take each other for somebody else:\n%s", test, line, diff)
	}
	return server, client
}

var perfTests = []string{"send lat", "write lat", "read lat", "atomic lat", "send bw", "write bw", "read bw", "atomic bw"}

// TestPerf is every test between two of ours, polling and sleeping, connected by
// hand and by rdma_cm.
func TestPerf(t *testing.T) {
	kit.Only612(t)
	for _, l := range []kit.PerfLink{kit.PerfRxe, kit.PerfSiwCM, kit.PerfRxeCM} {
		for n, test := range perfTests {
			if strings.HasPrefix(test, "atomic") && l == kit.PerfSiwCM {
				continue // siw has none
			}
			for i, wait := range []string{"", "-e"} {
				if i != (n+1)%2 && l == kit.PerfRxeCM {
					continue // the other two have both
				}
				if wait != "" && test == "write lat" {
					continue // a WRITE makes no completion at the peer
				}
				t.Run(fmt.Sprintf("%s: %s %s", l.Name, test, wait), func(t *testing.T) {
					l.Up(t)
					_, client := perfed(t, l, test, "-n 20 "+wait)
					if got := client.Results[0]["iterations"]; got != 20.0 {
						t.Errorf("%v messages", got)
					}
				})
			}
		}
	}
}

// TestPerfServices are UC and UD, which SEND and WRITE have.
func TestPerfServices(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	for _, test := range []struct {
		link       kit.PerfLink
		name, line string
	}{
		{kit.PerfRxe, "send lat", "-c UC"}, {kit.PerfRxe, "send lat", "-c UD -s 1024"},
		{kit.PerfRxe, "write lat", "-c UC -s 3000"}, {kit.PerfRxe, "write bw", "-c UC"},
		{kit.PerfRxe, "send bw", "-c UC"}, {kit.PerfRxe, "send bw", "-c UD"}, {kit.PerfRxe, "send bw", "-c UD -b -q 2"},
		{kit.PerfRxeCM, "send lat", "-c UD"}, {kit.PerfRxeCM, "send bw", "-c UD -q 2"}, {kit.PerfRxeCM, "send bw", "-c UD -b -q 2 -e"},
	} {
		t.Run(test.link.Name+" "+test.name+" "+test.line, func(t *testing.T) {
			perfed(t, test.link, test.name, "-n 20 "+test.line)
		})
	}
}
