//go:build vm

package test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// failed wants a run of ours to have failed with these words.
func failed(t *testing.T, out output, want string) {
	t.Helper()
	if out.Code != 1 || !strings.HasPrefix(out.Err, "rdmalink: ") || !strings.Contains(out.Err, want) {
		t.Errorf("%+v, want %q", out, want)
	}
}

// TestPingpongData: wrong data is reported in C's words. A C client without -c sends
// other data; ours fails where C only prints a message.
func TestPingpongData(t *testing.T) {
	only612(t)
	rxeFabric(t)
	noLeak(t)
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

// TestPingpongUnlike: ends that do not fit together say in what.
func TestPingpongUnlike(t *testing.T) {
	only612(t)
	rxeFabric(t)
	for _, test := range []struct{ name, kind, server, serverLine, client, clientLine, serverSays, clientSays string }{
		{"client's messages are longer", "rc", "Go", "-s 100", "Go", "-s 200", "do both ends have the same -s?", "do both ends have the same -s?"},
		{"number of QPs", "srq", "Go", "-q 2", "Go", "-q 3", "QPs of the peer: 3, of this end: 2; -q must be the same", "-q must be the same"},
		{"C's number of QPs", "srq", "Go", "-q 2", "C", "-q 3 -n 1", "QPs of the peer: 3, of this end: 2; -q must be the same", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			noLeak(t)
			server := servePort(t, pingpong(t, test.server, test.kind, test.serverLine), pingpongPort)
			client := launch(t, pingpong(t, test.client, test.kind, test.clientLine+" 127.0.0.1"))
			failed(t, server.end(), test.serverSays)
			if test.clientSays == "" {
				client.Process.Kill() // it goes on reading from a closed connection
				client.end()
				return
			}
			failed(t, client.end(), test.clientSays)
		})
	}
	t.Run("server's messages are longer", func(t *testing.T) {
		noLeak(t)
		server := servePort(t, pingpong(t, "Go", "rc", "-s 200"), pingpongPort)
		client := launch(t, pingpong(t, "Go", "rc", "-s 100 127.0.0.1"))
		failed(t, server.end(), "after 0 of 1000 exchanges: a message of 100 bytes, not 200: start both ends with the same -s")
		client.Process.Signal(syscall.SIGINT) // it gets no other notice
		failed(t, client.end(), "after 0 of 1000 exchanges: interrupted")
	})
	t.Run("no GID", func(t *testing.T) {
		noLeak(t)
		server := servePort(t, pingpong(t, "Go", "rc", ""), pingpongPort)
		client := launch(t, exec.Command("ibv_rc_pingpong", "-d", rxeLink, "127.0.0.1"))
		failed(t, server.end(), "the peer told no GID, without which nothing finds it on "+rxeLink+": give it -g")
		client.Process.Kill() // its reaction is not tested
		client.end()
	})
}

// TestPingpongRefused checks the errors that need no peer.
func TestPingpongRefused(t *testing.T) {
	only612(t)
	rxeFabric(t)
	noLeak(t)
	for line, want := range map[string]string{
		"rc -d gvnone":                    "gvnone",
		"rc -i 2":                         "-i 2 (" + rxeLink + " has 1)",
		"rc -g 200 127.0.0.1":             "connection refused",
		"ud -s 1025":                      "-s 1025: a datagram over " + rxeLink + " holds 1024 bytes",
		"uc -m 2048":                      "-m 2048: the MTU of " + rxeLink + "'s port is 1024; give -m 1024, here and to the peer",
		"rc -r 2000000000":                "-r 2000000000: " + rxeLink + " takes ",
		"srq -r 2000000000":               "-r 2000000000: " + rxeLink + " takes ",
		"srq -p 9 127.0.0.1":              "127.0.0.1:9: connect: connection refused",
		"ud --ib-dev=" + rxeLink + " ::1": "[::1]:18515: connect: connection refused",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		words := append([]string{"pingpong"}, strings.Fields(line)...)
		if !strings.Contains(line, "-d") {
			words = append(words, "-d", rxeLink)
		}
		failed(t, runCommand(t, exec.CommandContext(ctx, rdmalinkBin, words...)), want)
		cancel()
	}
}

// TestPingpongGarbage: a peer that is no pingpong program.
func TestPingpongGarbage(t *testing.T) {
	only612(t)
	rxeFabric(t)
	noLeak(t)
	for _, kind := range pingpongKinds {
		server := servePort(t, pingpong(t, "Go", kind, ""), pingpongPort)
		conn := must(net.Dial("tcp", "127.0.0.1:18515"))(t)
		io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\n", 2000))
		failed(t, server.end(), `\r\nGET / HTTP/`)
		conn.Close()

		l := must(net.Listen("tcp", "127.0.0.1:18515"))(t)
		client := launch(t, pingpong(t, "Go", kind, "127.0.0.1"))
		conn = must(l.Accept())(t)
		io.WriteString(conn, "0000:12")
		conn.(*net.TCPConn).CloseWrite()
		failed(t, client.end(), `"0000:12": not what a pingpong program says`)
		conn.Close()
		l.Close()
	}
}

// TestPingpongInterrupt ends either side in the middle, and a server that nobody
// came to. The other side gets no notice, as with C.
func TestPingpongInterrupt(t *testing.T) {
	only612(t)
	rxeFabric(t)
	for _, line := range []string{"", "-e"} {
		for _, kind := range pingpongKinds {
			t.Run(kind+" "+line, func(t *testing.T) {
				noLeak(t)
				before := rxePackets(t)
				server := servePort(t, pingpong(t, "Go", kind, "-n 100000000 "+line), pingpongPort)
				client := launch(t, pingpong(t, "Go", kind, "-n 100000000 127.0.0.1 "+line))
				until(t, "sending", func() bool { return rxePackets(t) >= before+100 })
				for _, end := range []*running{client, server} {
					end.Process.Signal(syscall.SIGINT)
					failed(t, end.end(), "of 100000000 exchanges: interrupted")
				}
			})
		}
	}
	t.Run("before any client", func(t *testing.T) {
		noLeak(t)
		server := servePort(t, pingpong(t, "Go", "rc", ""), pingpongPort)
		server.Process.Signal(syscall.SIGTERM)
		failed(t, server.end(), "rdmalink: interrupted\n")
	})
}

// rxePackets is the number of packets that the link has sent.
func rxePackets(t *testing.T) int {
	t.Helper()
	text := must(os.ReadFile("/sys/class/infiniband/" + rxeLink + "/ports/1/hw_counters/sent_pkts"))(t)
	return must(strconv.Atoi(strings.TrimSpace(string(text))))(t)
}
