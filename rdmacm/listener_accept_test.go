package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// listenIn listens in the world and has peers ask, of which only those that
// confirm do so.
func (w *world) listenIn(lc *ListenConfig, confirm func(handle uint32) bool) *Listener {
	w.t.Helper()
	w.accepted = func(k *fakeKernel, id uint32) {
		if confirm(id) {
			k.report(id, EventEstablished, nil)
		}
	}
	l, err := lc.Listen(w.t.Context(), "10.1.2.3:1")
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) ask(handle uint32) { sendRequest(w.cms[0], 1, handle) }

func (w *world) closed(l *Listener) {
	w.t.Helper()
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		w.t.Error(err)
	}
	// Handshakes that are given up are freed in the background.
	<-w.cms[0].closed
	eventually(w.t, "freeing all", func() bool { return w.verbs == nil || len(w.verbs.Leaks()) == 0 })
	w.empty()
}

// A peer that never confirms holds up none that comes behind it.
func TestAcceptBesideSilentPeer(t *testing.T) {
	for _, info := range []uverbs.DeviceInfo{aSIW, aRXE} {
		w := newWorld(t, info)
		const silent = 50
		l := w.listenIn(&ListenConfig{AcceptTimeout: time.Hour}, func(id uint32) bool { return id != silent })
		for id := range uint32(4) {
			w.ask(silent + id)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var conns []*Conn
		for len(conns) < 3 {
			c, err := l.Accept(ctx)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		for _, c := range conns {
			closeConn(t, c)
		}
		w.closed(l)
	}
}

// A peer that does not confirm in time is dropped, and Accept goes on.
func TestAcceptSilentPeer(t *testing.T) {
	for _, lc := range []*ListenConfig{{ConfirmTimeout: 50 * time.Millisecond}, {AcceptTimeout: 50 * time.Millisecond}} {
		w := newWorld(t, aRXE)
		begun := make(chan uint32, 1)
		l := w.listenIn(lc, func(id uint32) bool { begun <- id; return false })
		w.ask(50)
		ended := make(chan error)
		go func() { _, err := l.Accept(t.Context()); ended <- err }()
		<-begun
		eventually(t, "dropping", func() bool {
			l.backlog.mu.Lock()
			defer l.backlog.mu.Unlock()
			return len(l.backlog.handshakes) == 0
		})
		select {
		case err := <-ended:
			t.Error(err)
		default:
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		<-w.cms[0].closed
		eventually(t, "freeing all", func() bool { return len(w.verbs.Leaks()) == 0 })
		w.empty()
	}
}

// An error that concerns one peer is temporary for any cause, and the listener continues.
func TestAcceptErrorTemporary(t *testing.T) {
	refused := errors.New("refused")
	for name, breakIt := range map[string]func(*world, *Config){
		"Prepare": func(_ *world, cfg *Config) { cfg.Prepare = func(*Conn) error { return refused } },
		"ACCEPT":  func(w *world, _ *Config) { w.cms[0].failOnce(abi.RDMA_USER_CM_CMD_ACCEPT, syscall.EINVAL) },
		"QUERY":   func(w *world, _ *Config) { w.cms[0].failOnce(abi.RDMA_USER_CM_CMD_QUERY, syscall.EINVAL) },
		"INIT":    func(w *world, _ *Config) { w.cms[0].failOnce(abi.RDMA_USER_CM_CMD_INIT_QP_ATTR, syscall.ENOMEM) },
	} {
		w := newWorld(t, aRXE)
		l := w.listenIn(&ListenConfig{}, func(uint32) bool { return true })
		breakIt(w, &l.cfg.Config)
		w.ask(50)
		_, err := l.Accept(t.Context())
		var e interface{ Temporary() bool }
		if !errors.As(err, &e) || !e.Temporary() || errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
		l.cfg.Prepare = nil
		w.ask(51)
		c, err := l.Accept(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		closeConn(t, c)
		w.closed(l)
	}
}

// crowd is a backlog in a synctest bubble, whose peers never confirm but those of a port
// above 1000.
type crowd struct {
	t *testing.T
	b *backlog
}

func newCrowd(t *testing.T, lc *ListenConfig) *crowd {
	settings, err := lc.withDefaults("")
	if err != nil {
		t.Fatal(err)
	}
	return &crowd{t, newBacklog(settings, func(ctx context.Context, r *Request, answered func()) (*Conn, error) {
		answered()
		if r.RemoteAddr.Port() > 1000 {
			return newConn(nil), nil
		}
		<-ctx.Done()
		return nil, during("wait for the peer's confirmation", ctx.Err())
	})}
}

// ask has a peer ask, and reports whether another one was refused for it.
func (c *crowd) ask(addr string) (refused *Request) {
	at := netip.MustParseAddrPort(addr)
	return c.b.add(pendingRequest{from: at.Addr(), r: &Request{RemoteAddr: at}})
}

// accept is what Accept does, and returns how long it took.
func (c *crowd) accept() time.Duration {
	start := time.Now()
	for {
		h, changed, next := c.b.advance()
		if h != nil {
			if h.err != nil {
				c.t.Error(h.err)
			}
			return time.Since(start)
		}
		if next == 0 {
			next = time.Hour
		}
		select {
		case <-changed:
		case <-time.After(next):
		}
	}
}

// half is how many handshakes of an address are under way.
func (c *crowd) half(addr string) (n int) {
	synctest.Wait()
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	for _, h := range c.b.handshakes {
		if h.from == netip.MustParseAddr(addr) {
			n++
		}
	}
	return n
}

// Peers that ask and never confirm keep nobody else out.
func TestCrowd(t *testing.T) {
	run := func(name string, f func(*testing.T, *crowd)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, &ListenConfig{Backlog: 40})
				f(t, c)
				c.b.end()
			})
		})
	}
	run("one address", func(t *testing.T, c *crowd) {
		for range 100 {
			c.ask("10.0.0.1:1")
		}
		if c.ask("10.0.0.2:2000") == nil { // takes the place of another one in the queue
			t.Error("nobody is refused")
		}
		if took := c.accept(); took != 0 {
			t.Error("waits", took)
		}
		if n := c.half("10.0.0.1"); n != 10 {
			t.Errorf("%d handshakes of one address, a quarter of 40 may be", n)
		}
	})
	run("its own address", func(t *testing.T, c *crowd) {
		for range 10 {
			c.ask("10.0.0.1:1")
		}
		c.b.advance()
		synctest.Wait()
		c.ask("10.0.0.1:2000")
		if took := c.accept(); took != time.Second {
			t.Errorf("waits %v, a tenth of 10 s is right", took)
		}
	})
	run("many addresses", func(t *testing.T, c *crowd) {
		for i := range 40 {
			c.ask(fmt.Sprintf("10.0.1.%d:1", i))
			c.b.advance()
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		c.ask("10.0.0.2:2000")
		if took := c.accept(); took != 960*time.Millisecond {
			t.Errorf("waits %v for the oldest, which is 40 ms old", took)
		}
		if c.half("10.0.1.0") != 0 || c.half("10.0.1.1") != 1 {
			t.Error("the oldest did not go")
		}
	})
	run("most of an address", func(t *testing.T, c *crowd) {
		for i := range 38 {
			c.ask(fmt.Sprintf("10.0.1.%d:1", i))
		}
		c.ask("10.0.0.1:1")
		c.ask("10.0.0.1:1")
		c.b.advance()
		synctest.Wait()
		c.ask("10.0.0.2:2000")
		if c.accept(); c.half("10.0.0.1") != 1 || c.half("10.0.1.0") != 1 {
			t.Error("it was not one of the address that has most")
		}
	})
	run("time", func(t *testing.T, c *crowd) {
		c.ask("10.0.0.1:1")
		c.b.advance()
		if c.half("10.0.0.1") != 1 {
			t.Error("not begun")
		}
		time.Sleep(10*time.Second + 1)
		if c.half("10.0.0.1") != 0 {
			t.Error("still there after 10 s")
		}
	})
	run("refused", func(t *testing.T, c *crowd) {
		for i := range 40 {
			c.ask(fmt.Sprintf("10.0.1.%d:%d", i/2, i))
		}
		if r := c.ask("10.0.2.1:7"); r == nil || r.RemoteAddr.Port()%2 != 1 {
			t.Errorf("%+v is refused, which is not the newer of two", r)
		}
	})
}

// A call that its context ends leaves its handshakes to the next.
func TestAcceptLeavesHandshake(t *testing.T) {
	w := newWorld(t, aSIW)
	confirmed := make(chan uint32, 1)
	l := w.listenIn(&ListenConfig{}, func(id uint32) bool { confirmed <- id; return false })
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { _, err := l.Accept(ctx); left <- err }()
	w.ask(50)
	id := <-confirmed
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w.cms[0].report(id, EventEstablished, nil)
	c, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closeConn(t, c)
	w.closed(l)
}

// Close ends handshakes, and connections that nobody has taken.
func TestCloseEndsHandshakes(t *testing.T) {
	w := newWorld(t, aSIW)
	const silent = 50
	accepted := make(chan uint32, 2)
	l := w.listenIn(&ListenConfig{}, func(id uint32) bool { accepted <- id; return id != silent })
	ended := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, err := l.Accept(ctx); ended <- err }()
	w.ask(silent)
	<-accepted
	cancel()
	<-ended
	go func() { _, err := l.Accept(t.Context()); ended <- err }()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	w.closed(l)
}

// As many handshakes go on at a time as the backlog says; the requests behind them
// wait.
func TestAcceptsBounded(t *testing.T) { synctest.Test(t, testAcceptsBounded) }

func testAcceptsBounded(t *testing.T) {
	w := newWorld(t, aSIW)
	begun := make(chan uint32, 8)
	l := w.listenIn(&ListenConfig{Backlog: 2}, func(id uint32) bool { begun <- id; return false })
	accepted := make(chan *Conn)
	go func() {
		for {
			c, err := l.Accept(t.Context())
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	w.ask(50)
	w.ask(51)
	first := <-begun
	<-begun
	w.ask(52)
	synctest.Wait()
	select {
	case id := <-begun:
		t.Errorf("%d is let in beside two others", id)
	default:
	}
	w.cms[0].report(first, EventEstablished, nil)
	closeConn(t, <-accepted)
	<-begun // the third one's turn
	if n := w.cms[0].count(abi.RDMA_USER_CM_CMD_REJECT); n != 0 {
		t.Error(n, "rejected")
	}
	w.closed(l)
	if c, ok := <-accepted; ok {
		t.Error("accepted", c)
	}
}

// silence asks n times from an address and is answered, but never confirms.
func silence(t *testing.T, n int, from string, to netip.AddrPort) {
	t.Helper()
	source := netip.MustParseAddr(from)
	ch, err := openChannel(kernel.Owner(source))
	if err != nil {
		t.Fatal(err)
	}
	var ids []*ID
	t.Cleanup(func() {
		for _, id := range ids {
			_ = id.Close()
		}
		_ = ch.Close()
	})
	await := func(want EventType) {
		t.Helper()
		for {
			ev, err := ch.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ev.Ack()
			if ev.Type == want {
				return
			}
		}
	}
	for range n {
		id, err := ch.NewID(verbs.PortSpaceTCP, 0)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		if err := id.ResolveAddr(netip.AddrPortFrom(source, 0), to, time.Minute); err != nil {
			t.Fatal(err)
		}
		await(EventAddrResolved)
		if err := id.ResolveRoute(time.Minute); err != nil {
			t.Fatal(err)
		}
		await(EventRouteResolved)
		if err := id.Connect(t.Context(), &ConnParam{QPN: 7}); err != nil {
			t.Fatal(err)
		}
	}
}

// A crowd of peers that never confirm keeps nobody else out, on a fabric.
func TestSilentPeers(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Hosts: make([]rdmatest.HostOptions, 3)})
	l, err := (&ListenConfig{AcceptTimeout: time.Hour, ConfirmTimeout: time.Hour}).Listen(t.Context(), f.Host(0).Addr()+":0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	accepted := make(chan *Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept(ctx)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			accepted <- c
		}
	}()
	silence(t, 300, f.Host(1).Addr(), l.Addr())
	dialled, err := (&Dialer{LocalAddr: netip.AddrPortFrom(netip.MustParseAddr(f.Host(2).Addr()), 0)}).Dial(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	closeConn(t, <-accepted)
	closeConn(t, dialled)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
