//go:build linux

package pingpong

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
)

// talks returns the two ends of a TCP connection, as meet creates them.
func talks(t *testing.T, ctx context.Context) (client, server *exchange) {
	t.Helper()
	p := &session{kind: kindOf("rc"), options: options{tcpPort: freePort(t)}}
	met := make(chan *exchange, 1)
	go func() {
		conn, err := p.meet(ctx)
		if err != nil {
			t.Error(err)
		}
		met <- conn
	}()
	toServer := *p
	toServer.host = "127.0.0.1"
	var err error
	untilListened(t, p.tcpPort)
	if client, err = toServer.meet(ctx); err != nil {
		t.Fatal(err)
	}
	server = <-met
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// freePort returns a port that no other process gets before the end of the test. A
// socket that does not listen holds it; another socket may listen on the same port.
func freePort(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	reuse := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err := errors.Join(reuse, unix.Bind(fd, &unix.SockaddrInet4{})); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return at.(*unix.SockaddrInet4).Port
}

// untilListened waits until a socket listens on a port.
func untilListened(t *testing.T, port int) {
	t.Helper()
	listens := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]+:%04X [0-9A-F]+:0000 0A `, port))
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, file := range []string{"tcp", "tcp6"} {
			if text, _ := os.ReadFile("/proc/self/net/" + file); listens.Match(text) {
				return
			}
		}
	}
	t.Fatal("nobody listens on port ", port)
}

func TestPingpongExchange(t *testing.T) {
	for _, k := range Kinds {
		client, server := talks(t, t.Context())
		want := []addr{cAddressRead, {lid: 1, qpn: 2, psn: 3}, {qpn: 0xffffff}}[:min(3, k.records)]
		for _, way := range [][2]*exchange{{client, server}, {server, client}} {
			if err := way[0].sendAddrs(want, k.records); err != nil {
				t.Fatal(err)
			}
			if got, err := way[1].recvAddrs(len(want), k.records); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %+v, %v", k.Name, got, err)
			}
		}
		if err := client.ready(); err != nil {
			t.Error(err)
		}
		if err := server.awaitReady(); err != nil {
			t.Error(err)
		}
		client.Close()
		if rest, err := io.ReadAll(server); len(rest) > 0 || err != nil {
			t.Errorf("%q behind the exchange, %v", rest, err)
		}
	}
}

// TestPingpongHostile checks the errors for malformed messages of the peer.
func TestPingpongHostile(t *testing.T) {
	const receiving = "receive the peer's address (127.0.0.1:"
	srq := kindOf("srq")
	for _, test := range []struct {
		says    string
		records int
		want    []string
	}{
		{"", 1, []string{receiving, "closed the connection; its output should say why (EOF)"}},
		{cAddress[:30], 1, []string{receiving, `"0000:000011:2ab3f9:00000000000": not a message of a pingpong program (unexpected EOF)`}},
		{strings.Repeat("x", 1000), 1, []string{receiving, `"` + strings.Repeat("x", 52) + `": not a message`}},
		{"0000:000000" + cAddress[11:], 1, []string{receiving, "QPs of the peer: 0, of this end: 1"}},
		{cAddress, srq.records, []string{receiving, "(EOF)"}},
		{strings.Repeat(cAddress, srq.records), srq.records, []string{receiving, "QPs of the peer: 256, of this end: 1; -q must be the same"}},
	} {
		client, server := talks(t, t.Context())
		if _, err := io.WriteString(client, test.says); err != nil {
			t.Fatal(err)
		}
		client.Conn.(*net.TCPConn).CloseWrite()
		got, err := server.recvAddrs(1, test.records)
		for _, want := range test.want {
			if got != nil || err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.60q: %v, %v, want %s", test.says, got, err, want)
			}
		}
	}
	for says, want := range map[string]string{"": "(EOF)", "done": `"done": not a message`, "gone\x00": `"gone\x00": not a message`} {
		client, server := talks(t, t.Context())
		if _, err := io.WriteString(client, says); err != nil {
			t.Fatal(err)
		}
		client.Close()
		if err := server.awaitReady(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

// TestPingpongInterrupted checks that every wait for the peer ends with the
// context.
func TestPingpongInterrupted(t *testing.T) {
	for name, wait := range map[string]func(*exchange) error{
		"hear":       func(p *exchange) error { _, err := p.recvAddrs(1, 1); return err },
		"awaitReady": (*exchange).awaitReady,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			ours, theirs := net.Pipe()
			defer theirs.Close()
			p := talk(ctx, ours)
			defer p.Close()
			waited := make(chan error, 1)
			go func() { waited <- wait(p) }()
			synctest.Wait()
			if len(waited) > 0 {
				t.Errorf("%s did not wait", name)
			}
			cancel()
			if err := <-waited; !errors.Is(err, peer.ErrInterrupted) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestPingpongMeetsNobody checks that the wait for another end ends with the
// context too.
func TestPingpongMeetsNobody(t *testing.T) {
	for _, host := range []string{"", "192.0.2.1"} {
		ctx, cancel := context.WithCancel(t.Context())
		p := &session{options: options{tcpPort: freePort(t), host: host}}
		met := make(chan error, 1)
		if host != "" {
			cancel() // before it reaches for the network
		}
		go func() { _, err := p.meet(ctx); met <- err }()
		if host == "" {
			untilListened(t, p.tcpPort)
		}
		cancel()
		if err := <-met; !errors.Is(err, peer.ErrInterrupted) {
			t.Errorf("%q: %v", host, err)
		}
	}
}

// TestPingpongPortTaken checks that the error names the port.
func TestPingpongPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	p := &session{options: options{tcpPort: port}}
	if _, err := p.meet(t.Context()); err == nil || !strings.Contains(err.Error(), ":"+strconv.Itoa(port)+": bind: address already in use") {
		t.Error(err)
	}
}
