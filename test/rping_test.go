//go:build vm

package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// rpings are the programs that have to understand each other.
var rpings = map[string][]string{
	"C":       {"rping"},
	"Go":      {rdmalinkBin, "rping"},
	"Go poll": {rdmalinkBin, "rping", "--poll"},
}

func rping(program, line string) *exec.Cmd {
	words := append(rpings[program], strings.Fields(line)...)
	return exec.Command(words[0], words[1:]...)
}

// serveRping starts a server and waits until its port listens, in its network
// namespace: siw listens with TCP. A client that comes too early is refused, and
// C's then never ends.
func serveRping(t *testing.T, cmd *exec.Cmd) *running { return servePort(t, cmd, 7174) }

func servePort(t *testing.T, cmd *exec.Cmd, port int) *running {
	t.Helper()
	server := launch(t, cmd)
	server.listens(func() bool { return listening(server.Process.Pid, port) })
	return server
}

// listening reports whether a TCP port is open in the network namespace of a process;
// those of siw are among them.
func listening(pid, port int) bool {
	local := fmt.Sprintf(":%04X ", port)
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		for line := range strings.Lines(string(text)) {
			if before, after, ok := strings.Cut(line, local); ok && len(before) < 40 && strings.Contains(after, " 0A ") {
				return true
			}
		}
	}
	return false
}

// TestRping is every pair of programs over every kind of link, long enough on one
// of them for every wrap of the queues. Four connections go on side by side
// unless they poll: there is one CPU.
func TestRping(t *testing.T) {
	fabric(t)
	most := 100
	if !onKernel("6.12") {
		most = 40
	}
	type pair struct {
		server, client string
		sideBySide     bool
	}
	for _, pair := range fewElsewhere([]pair{
		{"C", "Go", true}, {"Go", "C", true}, {"Go", "Go", true},
		{"C", "Go poll", false}, {"Go poll", "C", false}, {"Go poll", "Go poll", false},
	}, 2) {
		t.Run(fmt.Sprintf("%s serves %s", pair.server, pair.client), func(t *testing.T) {
			noLeak(t)
			var ends [][2]*running
			for i, addr := range fewElsewhere([]string{dummyIPv4, farIPv6, farIPv4, dummyIPv6}, 2) {
				port := 7174 + i
				line := fmt.Sprintf(" -p %d -a %s", port, addr)
				cmd := rping(pair.server, "-s"+line)
				if addr == farIPv4 || addr == farIPv6 {
					cmd = inFarSpace(cmd)
				}
				server := servePort(t, cmd, port)
				count := 20
				if addr == dummyIPv4 {
					count = most
				}
				client := launch(t, rping(pair.client, fmt.Sprintf("-c -V -C %d", count)+line))
				if ends = append(ends, [2]*running{server, client}); !pair.sideBySide {
					pinged(t, server, client)
				}
			}
			for _, end := range ends {
				if pair.sideBySide {
					pinged(t, end[0], end[1])
				}
			}
		})
	}
}

// TestRpingText: both programs print the same with -v, for each size at
// and between the limits.
func TestRpingText(t *testing.T) {
	only612(t)
	fabric(t)
	for _, line := range fewElsewhere([]string{"-C 60 -S 64", "-C 3 -S 23", "-C 12 -S 4096", "-C 12 -S 65535"}, 1) {
		var want [2]string
		for _, pair := range []struct{ server, client string }{
			{"C", "Go"}, {"Go", "C"}, {"Go", "Go"},
		} {
			t.Run(fmt.Sprintf("%s serves %s %s", pair.server, pair.client, line), func(t *testing.T) {
				noLeak(t)
				got := rpingText(t, serveRping, pair.server, pair.client, "-v "+line, dummyIPv4)
				if want[0] == "" {
					want = got
				}
				if got[0] == "" || got != want {
					t.Errorf("not the same:\n%.400q\n%.400q", got, want)
				}
			})
		}
	}
}

// rpingText is what server and client print. A C program whose last lines may be
// missing gets another chance. So do two of C's that hang: a race in siw can leave the
// first message lying, and C then waits for ever.
func rpingText(t *testing.T, serve func(*testing.T, *exec.Cmd) *running, server, client, line, addr string) [2]string {
	t.Helper()
	for range 5 {
		s := serve(t, rping(server, "-s "+line+" -a "+addr))
		c := launch(t, rping(client, "-c -V "+line+" -a "+addr))
		bothC := server == "C" && client == "C"
		if bothC {
			late := time.AfterFunc(aChance, func() { s.Process.Kill(); c.Process.Kill() })
			defer late.Stop()
		}
		serverOut, clientOut, whole := rpingEnds(s, c)
		if !whole || bothC && (serverOut.Code != 0 || clientOut.Code != 0) {
			t.Logf("%s\n%s", s.brief(serverOut), c.brief(clientOut))
			continue
		}
		wellPinged(t, s, serverOut)
		wellPinged(t, c, clientOut)
		return [2]string{serverOut.Out, clientOut.Out}
	}
	t.Fatal("C's rping hung five times")
	return [2]string{}
}

// TestRpingWildcard: a server on all addresses serves either family, and a
// client may choose where it comes from.
func TestRpingWildcard(t *testing.T) {
	only612(t)
	fabric(t)
	for _, test := range []struct{ server, listen, client, dial string }{
		{"Go", "", "C", dummyIPv4},
		{"Go", "", "C", dummyIPv6},
		{"Go", "-a 0.0.0.0", "Go", dummyIPv4},
		{"Go", "-a ::", "Go", dummyIPv6},
		{"C", "", "Go", vethIPv4 + " -I " + vethIPv4},
		{"C", "-a ::0", "Go", dummyIPv6 + " -I " + dummyIPv6},
	} {
		t.Run(strings.Join([]string{test.server, test.listen, test.client, test.dial}, " "), func(t *testing.T) {
			noLeak(t)
			server := serveRping(t, rping(test.server, "-s "+test.listen))
			pinged(t, server, launch(t, rping(test.client, "-c -V -C 20 -a "+test.dial)))
		})
	}
}

// TestRpingJSON holds the report of either end.
func TestRpingJSON(t *testing.T) {
	fabric(t)
	noLeak(t)
	began := time.Now()
	server := serveRping(t, rping("Go", "-s -j"))
	client := launch(t, rping("Go", "-c -j -v -C 7 -S 100 -I "+dummyIPv4+" -a "+dummyIPv4))
	serverOut, clientOut := pinged(t, server, client)
	type report struct {
		Role, Local, Peer, Device string
		Pings, Bytes              int
		Seconds                   float64
	}
	read := func(text string) (r report) {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil || r.Seconds <= 0 || r.Seconds > time.Since(began).Seconds() || strings.Count(text, "\n") != 1 {
			t.Errorf("%v: %s", err, text)
		}
		r.Seconds = 0
		return r
	}
	gotServer, gotClient := read(serverOut.Out), read(clientOut.Out)
	here := gotClient.Local // a port of the kernel's choice
	want := report{Role: "client", Local: here, Peer: dummyIPv4 + ":7174", Device: dummyLink, Pings: 7, Bytes: 1400}
	if diff := cmp.Diff(want, gotClient); diff != "" || !strings.HasPrefix(here, dummyIPv4+":") {
		t.Error(diff)
	}
	want.Role, want.Local, want.Peer = "server", want.Peer, want.Local
	if diff := cmp.Diff(want, gotServer); diff != "" {
		t.Error(diff)
	}
}

// TestRpingPersistent: clients side by side, one that breaks off, and an
// interrupt at the end.
func TestRpingPersistent(t *testing.T) {
	only612(t)
	fabric(t)
	noLeak(t)
	server := serveRping(t, rping("Go", "-s -P"))
	var clients []*running
	for _, program := range []string{"C", "Go", "Go poll"} {
		clients = append(clients, launch(t, rping(program, "-c -V -C 50 -S 1000 -a "+dummyIPv4)))
	}
	for _, c := range clients {
		if out, _ := rpingEnd(c); out.Code != 0 {
			t.Error(c.brief(out))
		}
	}
	breaks := launch(t, rping("Go", "-c -v -a "+dummyIPv4))
	breaks.until("ping data: rdma-ping-5:")
	breaks.Process.Kill()
	breaks.end()
	if out := launch(t, rping("Go", "-c -V -C 5 -a "+dummyIPv4)).end(); out.Code != 0 {
		t.Errorf("after a client was killed: %+v", out)
	}
	server.Process.Signal(syscall.SIGTERM)
	if out := server.end(); out.Code != 0 || out.Out != "" {
		t.Errorf("%+v", out)
	}
}

// TestRpingInterrupt: a client without a count ends well, and so does its
// server; one with a count has failed.
func TestRpingInterrupt(t *testing.T) {
	only612(t)
	fabric(t)
	for _, test := range []struct {
		server, client, line, want string
	}{
		{"C", "Go", "", ""},
		{"Go", "Go", "", ""},
		{"Go poll", "Go poll", "", ""},
		{"Go", "Go", "-C 1000000", "rdmalink: interrupted after "},
	} {
		t.Run(fmt.Sprintf("%s serves %s %s", test.server, test.client, test.line), func(t *testing.T) {
			noLeak(t)
			server := serveRping(t, rping(test.server, "-s"))
			client := launch(t, rping(test.client, "-c -v -a "+dummyIPv4+" "+test.line))
			client.until("ping data: rdma-ping-10:")
			client.Process.Signal(syscall.SIGINT)
			out := client.end()
			if !strings.HasPrefix(out.Err, test.want) || (out.Err == "") != (test.want == "") || (out.Code == 0) != (test.want == "") {
				t.Error(client.brief(out))
			}
			if isCRping(server) {
				return // its reaction is not tested
			}
			if serverOut := server.end(); serverOut.Code != 0 {
				t.Error(server.brief(serverOut))
			}
		})
	}
	t.Run("before any client", func(t *testing.T) {
		noLeak(t)
		server := serveRping(t, rping("Go", "-s"))
		server.Process.Signal(syscall.SIGINT)
		if diff := cmp.Diff(output{Err: "rdmalink: interrupted\n", Code: 1}, server.end()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRpingKill: whichever of ours loses its peer in the middle says so; nothing is
// left of one that dies. What C's rping makes of that is its own affair.
func TestRpingKill(t *testing.T) {
	only612(t)
	fabric(t)
	for _, test := range []struct{ server, client, dies string }{
		{"Go", "C", "client"}, {"Go", "Go", "client"}, {"Go poll", "Go", "client"},
		{"C", "Go", "server"}, {"Go", "Go", "server"}, {"Go", "Go poll", "server"},
		{"C", "Go", "client"}, {"Go", "C", "server"},
	} {
		t.Run(fmt.Sprintf("%s serves %s, the %s dies", test.server, test.client, test.dies), func(t *testing.T) {
			noLeak(t)
			const line = " -v -S 20000 -C 1000000"
			server := serveRping(t, rping(test.server, "-s"+line))
			client := launch(t, rping(test.client, "-c -a "+dummyIPv4+line))
			victim, survivor := server, client
			if test.dies == "client" {
				victim, survivor = client, server
			}
			survivor.until("ping data: rdma-ping-0")
			victim.Process.Kill()
			victim.end()
			if isCRping(survivor) {
				return
			}
			if out := survivor.end(); out.Code != 1 || !strings.Contains(out.Err, "disconnected") {
				t.Error(survivor.brief(out))
			}
		})
	}
}

// TestRpingRefused holds the words for servers that are not there.
func TestRpingRefused(t *testing.T) {
	fabric(t)
	noLeak(t)
	for line, want := range map[string]string{
		"-c -a " + dummyIPv4:                    "refused",
		"-c -a 192.0.2.77":                      "unreachable",
		"-c -a " + dummyIPv4 + " -I 192.0.2.77": "assign",
		"-s -a 192.0.2.77":                      "assign",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		words := append(rpings["Go"][1:], strings.Fields(line)...)
		out := runCommand(t, exec.CommandContext(ctx, rpings["Go"][0], words...))
		cancel()
		t.Logf("%s: %s", line, out.Err)
		if out.Code != 1 || !strings.Contains(out.Err, want) {
			t.Errorf("%s: %+v", line, out)
		}
	}
}

// TestRpingLo: over lo as rdmalink makes it ready, to the address it gave lo and
// to 127.0.0.1, which C's client reaches only from the former (-I).
func TestRpingLo(t *testing.T) {
	only612(t)
	needSiw(t)
	newNetns(t)
	if out := rdmalink(t, "add siwlo type siw netdev lo"); out.Code != 0 {
		t.Fatalf("%+v", out)
	}
	t.Cleanup(func() { rdmalink(t, "del siwlo") })
	for _, test := range []struct{ server, client, addr string }{
		{"Go", "Go", "192.0.2.1"}, {"Go", "Go", "127.0.0.1"}, {"C", "Go", "127.0.0.1"}, {"Go", "C", "192.0.2.1"},
		{"Go", "C", "127.0.0.1 -I 192.0.2.1"},
	} {
		server := serveRping(t, rping(test.server, "-s"))
		pinged(t, server, launch(t, rping(test.client, "-c -V -C 20 -a "+test.addr)))
	}
}
