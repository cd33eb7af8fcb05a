//go:build vm

package perf

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestPingpongFirstDevice checks that without -d siw is skipped, with it the error names the commands that work there.
func TestPingpongFirstDevice(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	if kit.HasSiw {
		kit.Fabric(t)
		for _, kind := range pingpongKinds {
			failed(t, kit.RunCommand(t, exec.Command(kit.RdmalinkBin, "pingpong", kind, "-d", kit.DummyLink)),
				kit.DummyLink+": iWARP connects QPs through rdma_cm only: use rdmalink rping there")
		}
	}
	kit.NoLeak(t)
	server := exec.Command(kit.RdmalinkBin, "pingpong", "rc", "-n", "10")
	pingponged(t, server, exec.Command(kit.RdmalinkBin, "pingpong", "rc", "-n", "10", "localhost"))
}

// TestPingpongODP uses on-demand paging where the device has it, both ways with C.
func TestPingpongODP(t *testing.T) {
	odp := kit.OpenRxe(t).Attr.ODP
	kit.NoLeak(t)
	for _, kind := range []string{"rc", "srq"} {
		need := verbs.ODPSend | verbs.ODPRecv
		if kind == "srq" {
			need = verbs.ODPSend | verbs.ODPSRQRecv
		}
		if odp.General&verbs.ODPSupport == 0 || odp.RC&need != need {
			failed(t, kit.RunCommand(t, pingpong(t, "Go", kind, "-o")), "-o: "+kit.RxeLink+" has no on-demand paging for this")
			continue
		}
		for _, pair := range [][2]string{{"C", "Go"}, {"Go", "C"}, {"Go", "Go"}} {
			line := func(program string) string {
				if program == "Go" && kind == "rc" {
					return "-o -c -n 20 -s 100000 -P " // C can't prefetch on rxe
				}
				return "-o -c -n 20 -s 100000 "
			}
			pingponged(t, pingpong(t, pair[0], kind, line(pair[0])), pingpong(t, pair[1], kind, line(pair[1])+"127.0.0.1"))
		}
	}
}

// TestPingpongJSON holds the report of either end.
func TestPingpongJSON(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	kit.NoLeak(t)
	type place struct {
		LID, QPN, PSN uint32
		GID           string
	}
	type report struct {
		Kind, Role, Device     string
		Local, Remote          []place
		Size, Exchanges, Bytes int
		Seconds                float64
	}
	read := func(out kit.Output) (r report) {
		d := json.NewDecoder(strings.NewReader(out.Out))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil || r.Seconds <= 0 || strings.Count(out.Out, "\n") != 1 || out.Code != 0 || out.Err != "" {
			t.Errorf("%v: %+v", err, out)
		}
		r.Seconds = 0
		return r
	}
	const line = "-j -n 30 -q 3 -s 10 "
	serverOut, clientOut := playPingpong(t, pingpong(t, "Go", "srq", line), pingpong(t, "Go", "srq", line+kit.RxeIPv4))
	server, client := read(serverOut), read(clientOut)
	want := report{Kind: "srq", Role: "server", Device: kit.RxeLink, Local: client.Remote, Remote: client.Local, Size: 10, Exchanges: 30, Bytes: 600}
	if diff := cmp.Diff(want, server); diff != "" || len(want.Local) != 3 || len(want.Remote) != 3 || want.Local[2].GID != "::ffff:"+kit.RxeIPv4 {
		t.Error(diff, want)
	}
	want.Role, want.Local, want.Remote = "client", want.Remote, want.Local
	if diff := cmp.Diff(want, client); diff != "" {
		t.Error(diff)
	}
}

// failed wants a run of ours to have failed with these words.
func failed(t *testing.T, out kit.Output, want string) {
	t.Helper()
	if out.Code != 1 || !strings.HasPrefix(out.Err, "rdmalink: ") || !strings.Contains(out.Err, want) {
		t.Errorf("%+v, want %q", out, want)
	}
}

// TestPingpongData checks that wrong data is reported in C's words. A C client without -c sends other data; ours fails
// where C only prints a message.
func TestPingpongData(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	kit.NoLeak(t)
	const line = "-n 20 -s 8193 "
	for _, client := range []string{"C", "Go"} {
		cOut, _ := playPingpong(t, pingpong(t, "C", "rc", line+"-c"), pingpong(t, client, "rc", line+"127.0.0.1"))
		goOut, clientOut := playPingpong(t, pingpong(t, "Go", "rc", line+"-c"), pingpong(t, client, "rc", line+"127.0.0.1"))
		if withoutNumbers(goOut.Out) != withoutNumbers(cOut.Out) || strings.Count(goOut.Out, "invalid data in page ") != 3 {
			t.Errorf("we say\n%sand C\n%s", goOut.Out, cOut.Out)
		}
		failed(t, goOut, "-c: invalid data in 3 of 3 pages")
		if clientOut.Code != 0 {
			t.Errorf("%+v", clientOut)
		}
	}
}

// TestPingpongUnlike checks that ends with different options name the difference.
func TestPingpongUnlike(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	for _, test := range []struct{ name, kind, server, serverLine, client, clientLine, serverSays, clientSays string }{
		{"client's messages are longer", "rc", "Go", "-s 100", "Go", "-s 200", "do both ends have the same -s and -m?", "do both ends have the same -s and -m?"},
		{"number of QPs", "srq", "Go", "-q 2", "Go", "-q 3", "QPs of the peer: 3, of this end: 2; -q must be the same", "-q must be the same"},
		{"C's number of QPs", "srq", "Go", "-q 2", "C", "-q 3 -n 1", "QPs of the peer: 3, of this end: 2; -q must be the same", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			kit.NoLeak(t)
			server := kit.ServePort(t, pingpong(t, test.server, test.kind, test.serverLine), kit.PingpongPort)
			client := kit.Launch(t, pingpong(t, test.client, test.kind, test.clientLine+" 127.0.0.1"))
			failed(t, server.End(), test.serverSays)
			if test.clientSays == "" {
				client.Process.Kill() // it goes on reading from a closed connection
				client.End()
				return
			}
			failed(t, client.End(), test.clientSays)
		})
	}
	t.Run("server's messages are longer", func(t *testing.T) {
		kit.NoLeak(t)
		server := kit.ServePort(t, pingpong(t, "Go", "rc", "-s 200"), kit.PingpongPort)
		client := kit.Launch(t, pingpong(t, "Go", "rc", "-s 100 127.0.0.1"))
		failed(t, server.End(), "after 0 of 1000 exchanges: a message of 100 bytes, not 200: start both ends with the same -s")
		client.Process.Signal(syscall.SIGINT) // it gets no other notice
		failed(t, client.End(), "after 0 of 1000 exchanges: interrupted")
	})
	t.Run("no GID", func(t *testing.T) {
		kit.NoLeak(t)
		server := kit.ServePort(t, pingpong(t, "Go", "rc", ""), kit.PingpongPort)
		client := kit.Launch(t, exec.Command("ibv_rc_pingpong", "-d", kit.RxeLink, "127.0.0.1"))
		failed(t, server.End(), "the peer sent no GID, which "+kit.RxeLink+" needs: start the peer with -g")
		client.Process.Kill() // its reaction is not tested
		client.End()
	})
}

// TestPingpongRefused checks the errors that need no peer.
func TestPingpongRefused(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	kit.NoLeak(t)
	for line, want := range map[string]string{
		"rc -d gvnone":                        "gvnone",
		"rc -i 2":                             "-i 2 (" + kit.RxeLink + " has 1)",
		"rc -g 200 127.0.0.1":                 "connection refused",
		"ud -s 1025":                          "-s 1025: a datagram over " + kit.RxeLink + " holds 1024 bytes",
		"uc -m 2048":                          "-m 2048: the MTU of " + kit.RxeLink + "'s port is 1024; give -m 1024, here and to the peer",
		"rc -r 2000000000":                    "-r 2000000000: " + kit.RxeLink + " takes ",
		"srq -r 2000000000":                   "-r 2000000000: " + kit.RxeLink + " takes ",
		"srq -p 9 127.0.0.1":                  "127.0.0.1:9: connect: connection refused",
		"ud --ib-dev=" + kit.RxeLink + " ::1": "[::1]:18515: connect: connection refused",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
		words := append([]string{"pingpong"}, strings.Fields(line)...)
		if !strings.Contains(line, "-d") {
			words = append(words, "-d", kit.RxeLink)
		}
		failed(t, kit.RunCommand(t, exec.CommandContext(ctx, kit.RdmalinkBin, words...)), want)
		cancel()
	}
}

// TestPingpongGarbage talks to a peer that is no pingpong program.
func TestPingpongGarbage(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	kit.NoLeak(t)
	for _, kind := range pingpongKinds {
		server := kit.ServePort(t, pingpong(t, "Go", kind, ""), kit.PingpongPort)
		conn := kit.Must(net.Dial("tcp", "127.0.0.1:18515"))(t)
		io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\n", 2000))
		failed(t, server.End(), `\r\nGET / HTTP/`)
		conn.Close()

		l := kit.Must(net.Listen("tcp", "127.0.0.1:18515"))(t)
		client := kit.Launch(t, pingpong(t, "Go", kind, "127.0.0.1"))
		conn = kit.Must(l.Accept())(t)
		io.WriteString(conn, "0000:12")
		conn.(*net.TCPConn).CloseWrite()
		failed(t, client.End(), `"0000:12": not a message of a pingpong program`)
		conn.Close()
		l.Close()
	}
}

// TestPingpongInterrupt ends either side in the middle, and a server that nobody
// came to. The other side gets no notice, as with C.
func TestPingpongInterrupt(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	for _, line := range []string{"", "-e"} {
		for _, kind := range pingpongKinds {
			t.Run(kind+" "+line, func(t *testing.T) {
				kit.NoLeak(t)
				before := rxePackets(t)
				server := kit.ServePort(t, pingpong(t, "Go", kind, "-n 100000000 "+line), kit.PingpongPort)
				client := kit.Launch(t, pingpong(t, "Go", kind, "-n 100000000 127.0.0.1 "+line))
				kit.Until(t, "sending", func() bool { return rxePackets(t) >= before+100 })
				for _, end := range []*kit.Running{client, server} {
					end.Process.Signal(syscall.SIGINT)
					failed(t, end.End(), "of 100000000 exchanges: interrupted")
				}
			})
		}
	}
	t.Run("before any client", func(t *testing.T) {
		kit.NoLeak(t)
		server := kit.ServePort(t, pingpong(t, "Go", "rc", ""), kit.PingpongPort)
		server.Process.Signal(syscall.SIGTERM)
		failed(t, server.End(), "rdmalink: interrupted\n")
	})
}

// rxePackets is the number of packets that the link has sent.
func rxePackets(t *testing.T) int {
	t.Helper()
	text := kit.Must(os.ReadFile("/sys/class/infiniband/" + kit.RxeLink + "/ports/1/hw_counters/sent_pkts"))(t)
	return kit.Must(strconv.Atoi(strings.TrimSpace(string(text))))(t)
}

// TestPingpongIPv6 checks that our GID is that of the address TCP uses, or fits the client's, or is the one of -g. C's
// server listens on IPv4 only.
func TestPingpongIPv6(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	g := fmt.Sprintf(" -n 20 -c -g %d ", rxeGIDIndex(t, kit.RxeIPv6))
	for _, kind := range []string{"rc", "ud"} { // QPs' addresses, and address handles
		for _, test := range []struct{ server, serverLine, client, clientLine string }{
			{"Go", "-c", "Go", kit.RxeIPv6},
			{"Go", "-c", "Go", "::1"},
			{"Go", "-c", "Go", "127.0.0.1" + g},
			{"Go", "-c", "C", kit.RxeIPv4 + g},
			{"Go", "-c", "C", kit.RxeIPv6 + g},
			{"C", g, "Go", "127.0.0.1" + g},
		} {
			t.Run(strings.Join([]string{kind, test.server, test.client, test.clientLine}, " "), func(t *testing.T) {
				kit.NoLeak(t)
				serverOut, clientOut := pingponged(t, pingpong(t, test.server, kind, "-n 20 "+test.serverLine), pingpong(t, test.client, kind, "-n 20 -c "+test.clientLine))
				for _, out := range []kit.Output{serverOut, clientOut} {
					if !strings.Contains(out.Out, "GID fd83::1\n") || strings.Contains(out.Out, kit.RxeIPv4) {
						t.Error(out.Out)
					}
				}
			})
		}
	}
}

var pingpongKinds = []string{"rc", "uc", "ud", "srq"}

// pingpong is C's program of a kind, with the GID index that it needs, or ours.
func pingpong(t *testing.T, program, kind, line string) *exec.Cmd {
	t.Helper()
	words := []string{kit.RdmalinkBin, "pingpong", kind}
	if program == "C" {
		words = []string{"ibv_" + kind + "_pingpong", "-g", fmt.Sprint(rxeGIDIndex(t, kit.RxeIPv4))}
	}
	words = append(words, strings.Fields("-d "+kit.RxeLink+" "+line)...)
	return exec.Command(words[0], words[1:]...)
}

// rxeGIDIndex finds the index of the GID of an address.
func rxeGIDIndex(t *testing.T, addr string) uint32 {
	t.Helper()
	dev := kit.Must(uverbs.Open(kit.RxeLink))(t)
	defer dev.Close()
	return (&kit.RxeDevice{Device: dev, T: t}).GIDOf(addr).Index
}

// playPingpong runs server and client to their end.
func playPingpong(t *testing.T, server, client *exec.Cmd) (serverOut, clientOut kit.Output) {
	t.Helper()
	running := kit.ServePort(t, server, kit.PingpongPort)
	clientOut = kit.Launch(t, client).End()
	return running.End(), clientOut
}

// pingponged is playPingpong where both succeed and print the same as C's
// programs do among themselves.
func pingponged(t *testing.T, server, client *exec.Cmd) (serverOut, clientOut kit.Output) {
	t.Helper()
	serverOut, clientOut = playPingpong(t, server, client)
	for _, out := range []kit.Output{serverOut, clientOut} {
		if out.Code != 0 || out.Err != "" {
			t.Errorf("%q and %q:\n%+v\n%+v", server.Args, client.Args, serverOut, clientOut)
		}
	}
	if diff := cmp.Diff(addressesOf(serverOut.Out, "local"), addressesOf(clientOut.Out, "remote")); diff != "" {
		t.Errorf("what the server is, and what the client takes it for: %s", diff)
	}
	if diff := cmp.Diff(addressesOf(clientOut.Out, "local"), addressesOf(serverOut.Out, "remote")); diff != "" {
		t.Errorf("what the client is, and what the server takes it for: %s", diff)
	}
	return serverOut, clientOut
}

// addressesOf are the addresses that an end printed, without the colon that
// ibv_ud_pingpong has in the place of a comma.
func addressesOf(text, side string) (all []string) {
	for _, line := range strings.Split(text, "\n") {
		if what, address, _ := strings.Cut(line, ":"); strings.TrimSpace(what) == side+" address" {
			all = append(all, strings.Replace(strings.TrimSpace(address), ": GID", ", GID", 1))
		}
	}
	return all
}

var pingpongNumbers = regexp.MustCompile(`(QPN|PSN) 0x[0-9a-f]{6}|[0-9]+\.[0-9]{2} `)

// withoutNumbers removes the numbers that change from run to run.
func withoutNumbers(text string) string { return pingpongNumbers.ReplaceAllString(text, "$1 N ") }

// TestPingpong is every kind, between C and Go both ways and between two of ours,
// sleeping and polling: each end prints the text that C prints in its place, numbers
// apart. The first line goes round the receive queue more than twice. The data is
// checked by both ends.
//
// No message is longer than 64 packets. rxe lets no more be in flight, and on UC
// can stop for good in a longer message, from either program: when the last packet
// is gone between its look at their number and its note that it waits. RC goes on
// with a retry.
func TestPingpong(t *testing.T) {
	kit.RxeFabric(t)
	for _, kind := range kit.FewElsewhere(pingpongKinds, 2) {
		for i, line := range kit.FewElsewhere([]string{"-c -e -n 100 -r 40", "-c -n 20 -s 50000", "-c -n 30 -s 1"}, 1) {
			if kind == "ud" {
				line = strings.Replace(line, "-s 50000", "-s 700", 1) // the MTU is 1024
			}
			var wantServer, wantClient string
			pairs := [][2]string{{"C", "Go"}, {"Go", "C"}}
			if i == 0 && kit.OnKernel("6.12") {
				pairs = append(pairs, [2]string{"Go", "Go"})
			}
			for _, pair := range pairs {
				t.Run(fmt.Sprintf("%s %s: %s serves %s", kind, line, pair[0], pair[1]), func(t *testing.T) {
					kit.NoLeak(t)
					serverOut, clientOut := pingponged(t, pingpong(t, pair[0], kind, line), pingpong(t, pair[1], kind, line+" 127.0.0.1"))
					server, client := withoutNumbers(serverOut.Out), withoutNumbers(clientOut.Out)
					if wantServer == "" {
						wantServer, wantClient = server, client
					}
					if diff := cmp.Diff(wantServer, server) + cmp.Diff(wantClient, client); diff != "" || !strings.Contains(server, "GID ::ffff:"+kit.RxeIPv4) {
						t.Errorf("not what C prints:\n%s%s", diff, server)
					}
				})
			}
		}
	}
}
