//go:build vm

package cm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestCMLoopback checks that a siw link over lo works if lo has a MAC and an address
// outside 127/8, and that Dial chooses that address as its source.
func TestCMLoopback(t *testing.T) {
	kit.NeedSiw(t)
	kit.Sh(t, `ip link set lo address 02:00:00:00:00:01
		ip addr add 10.9.9.9/32 dev lo
		ip addr add fd09::9/128 dev lo nodad
		rdma link add cmlo type siw netdev lo`)
	t.Cleanup(func() {
		kit.Sh(t, `rdma link del cmlo
			ip addr del 10.9.9.9/32 dev lo
			ip addr del fd09::9/128 dev lo`)
	})
	cmLoopbackPings(t, ":0", "10.9.9.9", "127.0.0.1", "[fd09::9]", "[::1]", "localhost", "")
	if len(siwLinks(t)) == 1 {
		cmLoopbackPings(t, "127.0.0.1:0", "127.0.0.1")
	}
	// For the address 127.0.0.1 the kernel listens on each device, but TCP gives the address
	// to only one of them.
	kit.CMLink(t, "siw")
	l, err := rdmacm.Listen(t.Context(), "127.0.0.1:0")
	if err == nil {
		kit.OK(t, l.Close())
	}
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "several iWARP devices") {
		t.Error(err)
	}
}

// siwLinks returns the names of all soft iWARP devices, including those of other tests.
func siwLinks(t *testing.T) (names []string) {
	t.Helper()
	for _, info := range kit.Must(uverbs.Devices())(t) {
		if info.Driver == verbs.DriverSIW {
			names = append(names, info.Name)
		}
	}
	return names
}

func cmLoopbackPings(t *testing.T, address string, hosts ...string) {
	l, err := rdmacm.Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	served := cmEcho(t, l)
	for _, host := range hosts {
		addr := fmt.Sprintf("%s:%d", host, l.Addr().Port())
		if err := cmPing(t.Context(), addr, "hello"); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	served.Wait()
}

// mpaHeader is the header of a request or reply that sets up a connection (RFC 5044, 7.1).
// Flags includes the revision. Length is that of the private data.
type mpaHeader struct {
	Key    [16]byte
	Flags  uint16
	Length uint16
}

// answerMPA accepts one siw peer, replies as siw does, and sends more in the same
// segment as the reply.
func answerMPA(l net.Listener, more []byte) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	var h mpaHeader
	if err := binary.Read(c, binary.BigEndian, &h); err != nil {
		return err
	}
	private := make([]byte, h.Length)
	if _, err := io.ReadFull(c, private); err != nil {
		return err
	}
	copy(h.Key[:], "MPA ID Rep Frame")
	reply, err := binary.Append(nil, binary.BigEndian, &h)
	if err != nil {
		return err
	}
	if _, err := c.Write(append(append(reply, private...), more...)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, c) // ends when the other side closes
	if errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	return err
}

// TestCMPeerSpeaksFirst checks that Dial fails if the peer's first message follows its
// answer immediately, and that the error states this cause. An answer alone must not fail.
func TestCMPeerSpeaksFirst(t *testing.T) {
	kit.CMLink(t, "siw")
	l := kit.Must(net.Listen("tcp", "10.78.0.1:0"))(t)
	kit.CloseLater(t, l)
	for _, more := range []string{"", "a message that is too early"} {
		answered := make(chan error, 1)
		go func() { answered <- answerMPA(l, []byte(more)) }()
		// Without READs Dial does not test the connection. The test would fail, because
		// answerMPA serves no RDMA.
		c, err := (&rdmacm.Dialer{Config: rdmacm.Config{InitiatorDepth: -1, ResponderResources: -1}}).Dial(t.Context(), l.Addr().String())
		switch {
		case more == "" && err == nil:
			kit.OK(t, c.Close())
		case more == "":
			t.Error("a bare answer:", err)
		case !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "the dialing side must send first"):
			t.Error(err)
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}

// sysctl sets a sysctl of net.ipv4 until the test ends.
func sysctl(t *testing.T, path, value string) {
	t.Helper()
	path = "/proc/sys/net/ipv4/" + path
	old := kit.Must(os.ReadFile(path))(t)
	kit.OK(t, os.WriteFile(path, []byte(value), 0))
	t.Cleanup(func() { kit.OK(t, os.WriteFile(path, old, 0)) })
}

// timeWait leaves n sockets in TIME_WAIT towards addr, on n ports beginning with first. The clients close
// first, because TIME_WAIT is on the side that closes first.
func timeWait(t *testing.T, addr string, first, n int) {
	t.Helper()
	l := kit.Must(net.ListenTCP("tcp", kit.Must(net.ResolveTCPAddr("tcp", addr))(t)))(t)
	defer l.Close()
	for i := range n {
		local := *l.Addr().(*net.TCPAddr)
		local.Port = first + i
		client := kit.Must(net.DialTCP("tcp", &local, l.Addr().(*net.TCPAddr)))(t)
		server := kit.Must(l.Accept())(t)
		kit.OK(t, client.Close())
		if _, err := server.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		kit.OK(t, server.Close())
	}
}

// firstPort is the first port of the next run of TestCMPortsInTimeWait. The ports of a run
// are below those that the kernel chooses in other tests, and above those of the previous
// run, because either may still be in TIME_WAIT.
var firstPort = 10000

// TestCMPortsInTimeWait checks that dials succeed while half of the ports that the kernel
// chooses from are in TIME_WAIT. The connection manager ignores TIME_WAIT when it chooses.
func TestCMPortsInTimeWait(t *testing.T) {
	const addr, ports, dials = "10.78.0.1:7471", 128, 16
	first := firstPort
	firstPort += ports
	kit.CMLink(t, "siw")
	sysctl(t, "ip_local_port_range", fmt.Sprintf("%d %d", first, first+ports-1))
	sysctl(t, "tcp_tw_reuse", "0")
	timeWait(t, addr, first, ports/2)
	l := kit.Must(rdmacm.Listen(t.Context(), addr))(t)
	served := cmEcho(t, l)
	for i := range dials {
		if err := cmPing(t.Context(), addr, "hello"); err != nil {
			t.Errorf("dial %d: %v", i, err)
		}
	}
	kit.OK(t, l.Close())
	served.Wait()
}

// TestCMPrivateData checks siw's limit for each message: data up to the limit arrives
// unchanged, longer data is refused here and not by the peer's kernel.
func TestCMPrivateData(t *testing.T) {
	const limit = 251
	kit.CMLink(t, "siw")
	l := kit.Must(rdmacm.Listen(t.Context(), "10.78.0.1:0"))(t)
	kit.CloseLater(t, l)
	data := bytes.Repeat([]byte("private"), 40)
	tooLong := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "private data too long: 252 bytes given, 251 allowed") {
			t.Error(err)
		}
	}
	dial := func(private []byte) (*rdmacm.Conn, error) {
		return (&rdmacm.Dialer{Config: rdmacm.Config{PrivateData: private}}).Dial(t.Context(), l.Addr().String())
	}
	// serve answers one request.
	serve := func(answer func(*rdmacm.Request)) chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err := l.Next(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			answer(r)
		}()
		return done
	}

	_, err := dial(data[:limit+1])
	tooLong(err)

	accepted := serve(func(r *rdmacm.Request) {
		if !bytes.Equal(r.PrivateData, data[:limit]) {
			t.Errorf("the request has %q", r.PrivateData)
		}
		c, err := r.Accept(t.Context(), &rdmacm.Config{PrivateData: data[:limit]})
		if err != nil {
			t.Error(err)
			return
		}
		<-c.Done()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	c := kit.Must(dial(data[:limit]))(t)
	if !bytes.Equal(c.PrivateData(), data[:limit]) {
		t.Errorf("the answer has %q", c.PrivateData())
	}
	kit.OK(t, c.Close())
	<-accepted

	refused := serve(func(r *rdmacm.Request) {
		_, err := r.Accept(t.Context(), &rdmacm.Config{PrivateData: data[:limit+1]})
		tooLong(err)
	})
	var rejected *rdmacm.RejectedError
	if _, err := dial(nil); !errors.As(err, &rejected) {
		t.Error(err)
	}
	<-refused

	refused = serve(func(r *rdmacm.Request) {
		if err := r.Reject(data[:limit]); err != nil {
			t.Error(err)
		}
	})
	if _, err := dial(nil); !errors.As(err, &rejected) || !bytes.Equal(rejected.PrivateData, data[:limit]) {
		t.Error(err)
	}
	<-refused

	refused = serve(func(r *rdmacm.Request) { tooLong(r.Reject(data[:limit+1])) })
	if _, err := dial(nil); !errors.As(err, &rejected) {
		t.Error(err)
	}
	<-refused
}

const cmMessage = 64

// cmPeer is one side of a ping. It has memory, and posts a receive before the peer may send.
type cmPeer struct{ mr *uverbs.MR }

func (p *cmPeer) prepare(c *rdmacm.Conn) (err error) {
	if p.mr, err = c.PD().AllocMR(2*cmMessage, verbs.AccessLocalWrite, nil); err != nil {
		return err
	}
	c.Own(p.mr)
	_, err = c.QP().PostRecv([]verbs.RecvWR{{WRID: 1, SGL: []verbs.SGE{p.mr.SGE(0, cmMessage)}}})
	return err
}

func (p *cmPeer) send(ctx context.Context, c *rdmacm.Conn, text string) error {
	n := copy(p.mr.Bytes()[cmMessage:], text)
	wr := verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{p.mr.SGE(cmMessage, n)}}
	if _, err := c.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	_, err := cmWait(ctx, c.SendCQ())
	return err
}

func (p *cmPeer) recv(ctx context.Context, c *rdmacm.Conn) (string, error) {
	wc, err := cmWait(ctx, c.RecvCQ())
	if err != nil {
		return "", err
	}
	return string(p.mr.Bytes()[:wc.ByteLen]), nil
}

func cmWait(ctx context.Context, cq *uverbs.CQ) (verbs.WC, error) {
	var wcs [1]verbs.WC
	if _, err := cq.Wait(ctx, wcs[:]); err != nil {
		return wcs[0], err
	}
	return wcs[0], wcs[0].Err()
}

// cmEcho accepts connections until the listener is closed, and answers each
// message with a copy.
func cmEcho(t *testing.T, l *rdmacm.Listener) *sync.WaitGroup {
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			r, err := l.Next(t.Context())
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Error("next:", err)
				}
				return
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				if err := cmAnswer(r); err != nil {
					t.Error("server:", err)
				}
			}()
		}
	}()
	return &wg
}

func cmAnswer(r *rdmacm.Request) error {
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	var p cmPeer
	c, err := r.Accept(ctx, &rdmacm.Config{Prepare: p.prepare, PrivateData: []byte("welcome")})
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	defer c.Close()
	text, err := p.recv(ctx, c)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	// Over RoCE the client may receive the answer and close before its kernel acknowledges
	// it. A flushed send is therefore no failure: the client checks that the answer arrived.
	if err := p.send(ctx, c, "re: "+text); err != nil && !errors.Is(err, verbs.StatusWRFlushErr) {
		return fmt.Errorf("send: %w", err)
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
		return errors.New("the client did not disconnect")
	}
	if err := c.Err(); !errors.Is(err, rdmacm.ErrDisconnected) {
		return fmt.Errorf("end of connection: %w", err)
	}
	return c.Close()
}

func cmPing(ctx context.Context, addr, text string) error {
	ctx, cancel := context.WithTimeout(ctx, kit.Patience)
	defer cancel()
	var p cmPeer
	c, err := (&rdmacm.Dialer{Config: rdmacm.Config{Prepare: p.prepare, PrivateData: []byte(text)}}).Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if got := strings.TrimRight(string(c.PrivateData()), "\x00"); got != "welcome" {
		return fmt.Errorf("private data %q", got)
	}
	if err := p.send(ctx, c, text); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	answer, err := p.recv(ctx, c)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if answer != "re: "+text {
		return fmt.Errorf("answer %q", answer)
	}
	return c.Close()
}

func TestCMPing(t *testing.T) {
	kit.CMLink(t, "siw")
	for _, test := range kit.FewElsewhere([]struct{ listen, host string }{
		{"[fe80::78%cmdummy]:0", "fe80::78%cmdummy"},
		{":0", "10.78.0.1"},
		{":0", "fd78::1"},
		{"10.78.0.1:0", "10.78.0.1"},
		{"[fd78::1]:0", "fd78::1"},
		{":0", "fe80::78%cmdummy"},
		{"0.0.0.0:0", "10.78.0.1"},
		{"[::]:0", "fd78::1"},
	}, 3) {
		t.Run(test.listen+" "+test.host, func(t *testing.T) {
			l, err := rdmacm.Listen(t.Context(), test.listen)
			if err != nil {
				t.Fatal(err)
			}
			served := cmEcho(t, l)
			addr := netip.AddrPortFrom(netip.MustParseAddr(test.host), l.Addr().Port()).String()
			for range 3 {
				if err := cmPing(t.Context(), addr, "hello"); err != nil {
					t.Error(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			served.Wait()
		})
	}
}

func TestCMNoLeak(t *testing.T) {
	kit.CMLink(t, "siw")
	kit.NoLeak(t)
	l, err := rdmacm.Listen(t.Context(), ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := cmEcho(t, l)
	addr := netip.AddrPortFrom(netip.MustParseAddr("10.78.0.1"), l.Addr().Port()).String()
	if err := cmPing(t.Context(), addr, "warm up"); err != nil {
		t.Fatal(err)
	}
	pings := 60
	if !kit.OnKernel("6.12") {
		pings = 15
	}
	for i := range pings {
		if err := cmPing(t.Context(), addr, fmt.Sprint("ping ", i)); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	served.Wait()
}

func TestCMReject(t *testing.T) {
	kit.CMLink(t, "siw")
	l, err := rdmacm.Listen(t.Context(), "10.78.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		r, err := l.Next(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		if got := strings.TrimRight(string(r.PrivateData), "\x00"); got != "let me in" {
			t.Errorf("private data %q", got)
		}
		if err := r.Reject([]byte("not today")); err != nil {
			t.Error(err)
		}
	}()
	_, err = (&rdmacm.Dialer{Config: rdmacm.Config{PrivateData: []byte("let me in")}}).Dial(t.Context(), l.Addr().String())
	var rejected *rdmacm.RejectedError
	if !errors.As(err, &rejected) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
	if got := strings.TrimRight(string(rejected.PrivateData), "\x00"); got != "not today" {
		t.Errorf("private data %q", got)
	}
	t.Log(err)
}

func TestCMErrors(t *testing.T) {
	kit.CMLink(t, "siw")
	for _, test := range []struct {
		addr string
		want error
	}{
		{"10.78.0.1:9", syscall.ECONNREFUSED},
		{"192.0.2.1:9", syscall.ENETUNREACH},
		{"127.0.0.1:9", nil},
	} {
		_, err := rdmacm.Dial(t.Context(), test.addr)
		t.Log(err)
		if rejected := new(rdmacm.RejectedError); err == nil || test.want != nil && !errors.Is(err, test.want) || errors.As(err, &rejected) {
			t.Errorf("%s: %v, want %v and no RejectedError", test.addr, err, test.want)
		}
	}
	if _, err := rdmacm.Listen(t.Context(), "192.0.2.1:9"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Error(err)
	}
	l, err := rdmacm.Listen(t.Context(), "10.78.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = rdmacm.Listen(t.Context(), l.Addr().String())
	t.Log(err)
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Error(err)
	}
}

// TestCMCancel checks that cancelling the context ends each wait.
func TestCMCancel(t *testing.T) {
	kit.CMLink(t, "siw")
	l, err := rdmacm.Listen(t.Context(), "10.78.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	kit.Cancelled(t, "next", "(*Listener).Next", func(ctx context.Context) error { _, err := l.Next(ctx); return err })
	kit.Cancelled(t, "accept", "(*Listener).Accept", func(ctx context.Context) error { _, err := l.Accept(ctx); return err })
	// The listener doesn't answer the request.
	kit.Cancelled(t, "dial", "(*Conn).await", func(ctx context.Context) error { _, err := rdmacm.Dial(ctx, l.Addr().String()); return err })
	// No host has the address.
	kit.Cancelled(t, "dial silence", "(*ID).Connect", func(ctx context.Context) error { _, err := rdmacm.Dial(ctx, "10.78.0.99:1"); return err })
}
