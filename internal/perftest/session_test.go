package perftest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// tcp is a connection and its two ends.
func tcp(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	if client, err = net.Dial("tcp4", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server = <-accepted; server == nil {
		t.Fatal("not accepted")
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// both runs the two ends of a session through; each closes its connection then.
func both(t *testing.T, client, server *transcript) (clientErr, serverErr error) {
	t.Helper()
	c, s := tcp(t)
	ended := make(chan error, 1)
	go func() {
		defer s.Close()
		ended <- server.goThrough(t.Context(), OverTCP(s, Server, server.test), Server)
	}()
	clientErr = client.goThrough(t.Context(), OverTCP(c, Client, client.test), Client)
	c.Close()
	return clientErr, <-ended
}

// TestSession plays every kind of test between two of ours.
func TestSession(t *testing.T) {
	for verb := Send; verb <= Atomic; verb++ {
		for bits := range 32 {
			set := func(bit int) bool { return bits&(1<<bit) != 0 }
			tr := &transcript{qps: 2, sizes: 1, test: Test{Verb: verb, Latency: set(0), Bidirectional: set(1) && !set(0),
				AllSizes: set(2), Duration: set(3), LIDOnly: set(4)}}
			if tr.test.AllSizes {
				tr.sizes = 3
			}
			if clientErr, serverErr := both(t, tr, tr); clientErr != nil || serverErr != nil {
				t.Errorf("%+v: client %v, server %v", tr.test, clientErr, serverErr)
			}
		}
	}
}

// TestReports checks that reports reach the other end in the tests that exchange them.
func TestReports(t *testing.T) {
	for _, test := range []Test{{Verb: Send, Bidirectional: true}, {Verb: Write}, {Verb: Atomic, Bidirectional: true}} {
		c, s := tcp(t)
		heard := make(chan *Report, 1)
		end := func(conn net.Conn, role Role, own Report) *Report {
			defer conn.Close()
			session := OverTCP(conn, role, test)
			session.own, session.their = []Endpoint{{QPN: 1}}, []Endpoint{{QPN: 1}}
			ended, endErr := session.End(t.Context(), own)
			finished, finishErr := session.Finish(t.Context(), own)
			if endErr != nil || finishErr != nil || (ended == nil) == (finished == nil) {
				t.Error(test, ended, endErr, finished, finishErr)
			}
			if ended == nil {
				ended = finished
			}
			return ended
		}
		clients, servers := Report{1, 2, 3.5, 4.25, 5}, Report{6, 7, 8.5, 9, 10}
		go func() { heard <- end(s, Server, servers) }()
		if got := end(c, Client, clients); got == nil || *got != servers {
			t.Error(test, got)
		}
		if got := <-heard; got == nil || *got != clients {
			t.Error(test, got)
		}
	}
}

// TestAgree checks the System that both ends agree on.
func TestAgree(t *testing.T) {
	a, b := System{"6.06", 4096, 128, 5}, System{"6.27", 65536, 64, 3}
	if got, want := a.agree(b), (System{"6.27", 65536, 128, 3}); got != want {
		t.Errorf("%+v", got)
	}
	if got, want := b.agree(a), (System{"6.06", 65536, 128, 3}); got != want {
		t.Errorf("%+v", got)
	}
}

// TestOptionsDiffer checks the errors of options that differ detectably.
func TestOptionsDiffer(t *testing.T) {
	one, two := &transcript{qps: 1, sizes: 1}, &transcript{qps: 2, sizes: 1}
	plain := &transcript{qps: 1, sizes: 1, test: Test{LIDOnly: true}}
	for _, c := range []struct {
		client, server *transcript
		want           string
	}{
		{one, two, "-q must be the same"},
		{two, one, "-q must be the same"},
		{plain, one, "-x of the peer must fit"},
		{one, plain, "-x of the peer must fit"},
	} {
		clientErr, serverErr := both(t, c.client, c.server)
		err := errors.Join(clientErr, serverErr)
		if clientErr == nil || serverErr == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrPeer) {
			t.Errorf("client %v, server %v, want %q", clientErr, serverErr, c.want)
		}
	}
}

// TestHostile checks that the error has the step, the peer, the message and a remedy.
func TestHostile(t *testing.T) {
	version := string(appendVersion(nil, ""))
	for _, c := range []struct{ says, want string }{
		{"", "receive the version (127.0.0.1:"},
		{"", "closed the connection"},
		{"GET / HTTP/1.1\r\n\r\n", `got "GET / HTTP/1.1\r\n"`},
		{"SSH-2.0", `got "SSH-2.0", which is 7 of 16 bytes`},
		{"5.60" + strings.Repeat("\x00", 12), "runs perftest 5.60"},
		{version + "\xff\xff\xff\xff", "receive the page size"},
		{version + "\x00\x00\x10\x00\x00\x00\x00\x00", "receive the size of a cache line"},
		{version + "\x00\x00\x10\x00\x00\x00\x00\x409\x00", `got "9\x00", want an MTU's code`},
		{version + "\x00\x00\x10\x00\x00\x00\x00\x403\x00" + strings.Repeat("x", gidSize), "the 108 bytes of a QP's address with a GID"},
	} {
		client, server := tcp(t)
		client.Write([]byte(c.says))
		client.(*net.TCPConn).CloseWrite()
		err := (&transcript{qps: 1, sizes: 1}).goThrough(t.Context(), OverTCP(server, Server, Test{}), Server)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ErrPeer.Error()) ||
			!strings.HasPrefix(err.Error(), "ib_send_bw: ") {
			t.Errorf("%q: %v, want %q", c.says, err, c.want)
		}
	}
}

// TestDeadline checks that the wait for a silent peer ends with the context, and that an
// interrupt of the user is not reported as the peer's fault. The connection stays usable.
func TestDeadline(t *testing.T) {
	client, server := tcp(t)
	s := OverTCP(server, Server, Test{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Greet(ctx, System{}); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrPeer) {
		t.Error(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := s.Greet(ctx, System{}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrPeer) {
		t.Error(err)
	}
	client.Write(make([]byte, 4))
	if err := s.ch.receive(t.Context(), make([]byte, 4)); err != nil {
		t.Error(err)
	}
}

// TestMessageLength checks that a message over a QP must have the expected length.
func TestMessageLength(t *testing.T) {
	for _, n := range []int{0, versionSize - 1, versionSize + 1, MaxMessage} {
		s := OverCM(lengthMessenger(n), "the peer", Server, Test{CM: true})
		_, err := s.Greet(t.Context(), System{})
		if err == nil || !strings.Contains(err.Error(), "want 16") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	s := OverCM(lengthMessenger(-1), "the peer", Server, Test{CM: true})
	if _, err := s.Greet(t.Context(), System{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

type lengthMessenger int

func (lengthMessenger) Send(context.Context, []byte) error { return nil }

func (m lengthMessenger) Receive(context.Context, []byte) (int, error) {
	if m < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return int(m), nil
}
