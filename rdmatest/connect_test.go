package rdmatest_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestPortInUse checks that a port has one listener at a time, and those of a host that is dead are
// free. Connections that it has accepted do not occupy it.
func TestPortInUse(t *testing.T) {
	inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, k rdmatest.Kind) {
		ctx := f.Host(1).Context(t.Context())
		listen := func() (*rdmacm.Listener, error) {
			return new(rdmacm.ListenConfig).Listen(ctx, f.Host(1).Addr()+":7471")
		}
		for range 2 {
			l := must(listen())(t)
			if _, err := listen(); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("a second listener: %v", err)
			}
			accepted := make(chan *rdmacm.Conn, 1)
			go func() {
				c, err := l.Accept(context.Background())
				if err != nil {
					t.Error(err)
				}
				accepted <- c
			}()
			c := must(rdmacm.Dial(t.Context(), l.Addr().String()))(t)
			s := <-accepted
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			_, err := rdmacm.Dial(t.Context(), l.Addr().String())
			if rejected := new(rdmacm.RejectedError); !errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &rejected) == (k == rdmatest.SIW) {
				t.Errorf("a dial without a listener: %v", err)
			}
			if err := must(listen())(t).Close(); err != nil { // while the connection lives
				t.Error(err)
			}
			if err := errors.Join(c.Close(), s.Close()); err != nil {
				t.Error(err)
			}
		}
		dead := must(listen())(t)
		f.Host(1).Kill()
		l := must(listen())(t)
		if err := errors.Join(dead.Close(), l.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestListensElsewhere checks the reason of a host that listens on the port, but on another address: Linux finds the
// service, and no listener for the address.
func TestListensElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.RXE})
		other := netip.MustParseAddr("198.51.100.77")
		f.Host(1).Device(0).AddAddr(other)
		l := must(new(rdmacm.ListenConfig).Listen(t.Context(), f.Host(1).Addr()+":7471"))(t)
		defer l.Close()
		for port, want := range map[uint16]rdmacm.RejectReason{7471: rdmacm.RejectConsumer, 7472: rdmacm.RejectInvalidServiceID} {
			_, err := rdmacm.Dial(f.Host(0).Context(t.Context()), netip.AddrPortFrom(other, port).String())
			if rejected := new(rdmacm.RejectedError); !errors.As(err, &rejected) || rejected.Reason != want {
				t.Errorf("port %d: %v, want %v", port, err, want)
			}
		}
	})
}

// TestFlood checks that honest dials get through while another host asks for as many connections as it can, and gives up
// half of its dials. The first honest request finds the listener full, with nobody who accepts. Over iWARP no others follow,
// because a kernel whose queue is full refuses requests there; over RoCE they come again.
func TestFlood(t *testing.T) {
	const flooders, each, honest = 24, 20, 10
	for _, k := range []rdmatest.Kind{rdmatest.SIW, rdmatest.RXE} {
		t.Run(k.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Kind: k, Hosts: make([]rdmatest.HostOptions, 3)})
				l := must((&rdmacm.ListenConfig{Backlog: 8}).Listen(t.Context(), f.Host(0).Addr()+":0"))(t)
				dial := func(ctx context.Context) error {
					c, err := rdmacm.Dial(ctx, l.Addr().String())
					if err == nil {
						err = c.Close()
					}
					return err
				}
				var all sync.WaitGroup
				for i := range flooders {
					all.Go(func() {
						for range each {
							ctx, cancel := context.WithCancel(f.Host(1).Context(t.Context()))
							if i%2 == 0 {
								time.AfterFunc(time.Millisecond, cancel)
							}
							_ = dial(ctx)
							cancel()
						}
					})
				}
				synctest.Wait()
				dialled := make(chan error, 1)
				ctx := f.Host(2).Context(t.Context())
				go func() { dialled <- dial(ctx) }()
				synctest.Wait()
				select {
				case err := <-dialled:
					t.Errorf("nobody has accepted: %v", err)
					dialled <- nil
				default:
				}
				all.Go(func() {
					for {
						switch c, err := l.Accept(context.Background()); {
						case errors.Is(err, net.ErrClosed):
							return
						case err == nil:
							_ = c.Close()
						}
					}
				})
				if err := <-dialled; err != nil {
					t.Error(err)
				}
				if k == rdmatest.RXE {
					for n := range honest {
						if err := dial(ctx); err != nil {
							t.Errorf("dial %d: %v", n, err)
						}
					}
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				all.Wait()
			})
		})
	}
}

// TestHandshakeLost checks that requests and answers that are lost are sent again, after the kernel's
// times: MADs after 4.608 and 4.096 seconds, SYNs after 1, 2 and 4, data of TCP after 0.2, 0.4 and so
// on.
func TestHandshakeLost(t *testing.T) {
	inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, k rdmatest.Kind) {
		lose := func(*rdmacm.Conn) error {
			f.SetLoss(1)
			time.AfterFunc(5*time.Second, func() { f.SetLoss(0) })
			return nil
		}
		request, answer := 2*4608*time.Millisecond, 2*4096*time.Millisecond
		if k == rdmatest.SIW || k == rdmatest.ERDMA {
			request, answer = 7*time.Second, 6200*time.Millisecond
		}
		for _, c := range []struct {
			server, client rdmacm.Config
			want           time.Duration
		}{{client: rdmacm.Config{Prepare: lose}, want: request}, {server: rdmacm.Config{Prepare: lose}, want: answer}} {
			l := must((&rdmacm.ListenConfig{Config: c.server}).Listen(t.Context(), f.Host(1).Addr()+":0"))(t)
			served := make(chan error, 1)
			go func() {
				s, err := l.Accept(context.Background())
				if err == nil {
					<-s.Done()
					err = s.Close()
				}
				served <- err
			}()
			start := time.Now()
			conn := must((&rdmacm.Dialer{Config: c.client}).Dial(t.Context(), l.Addr().String()))(t)
			if took := time.Since(start); took != c.want {
				t.Errorf("connected after %v, want %v", took, c.want)
			}
			if err := errors.Join(conn.Close(), <-served, l.Close()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAcceptAbandoned checks that a peer that gives up before it is accepted makes Accept fail as on
// Linux: ib_send_cm_rep answers EINVAL, siw and erdma answer ECONNRESET.
func TestAcceptAbandoned(t *testing.T) {
	inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, k rdmatest.Kind) {
		l := must(rdmacm.Listen(t.Context(), f.Host(1).Addr()+":0"))(t)
		defer l.Close()
		ctx, cancel := context.WithCancel(t.Context())
		dialled := make(chan error, 1)
		go func() { _, err := rdmacm.Dial(ctx, l.Addr().String()); dialled <- err }()
		r := must(l.Next(t.Context()))(t)
		cancel()
		if err := <-dialled; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		want := syscall.EINVAL
		if k == rdmatest.SIW || k == rdmatest.ERDMA {
			want = syscall.ECONNRESET
		}
		if _, err := r.Accept(t.Context(), nil); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	})
}

// TestAckTimeouts checks that the default of the connection manager, and the accepting side's
// timeouts of another one, are those of Linux 6.12 (TestCMRxeAckTimeouts measures them).
func TestAckTimeouts(t *testing.T) {
	for _, c := range []struct {
		set               time.Duration
		dialled, accepted uint8
	}{{0, 17, 17}, {100 * time.Millisecond, 15, 16}, {8 * time.Second, 21, 21}} {
		dialled, accepted := meetBy(t, rdmatest.New(t), &rdmacm.Dialer{Config: rdmacm.Config{TransportOptions: rdmacm.TransportOptions{AckTimeout: c.set}}})
		for conn, want := range map[*rdmacm.Conn]uint8{dialled: c.dialled, accepted: c.accepted} {
			if a := must(conn.QP().Query())(t); a.AckTimeout != 4096<<want || a.RetryCnt != 7 {
				t.Errorf("%v: %v, %d retries, want %d", c.set, a.AckTimeout, a.RetryCnt, want)
			}
		}
	}
}

// TestSlowAccept checks that a program over RoCE has 15 times 66 seconds to accept, because its
// kernel says that it needs time. Over iWARP the side that dials gives up after 10 or 20 seconds.
func TestSlowAccept(t *testing.T) {
	limits := map[rdmatest.Kind]time.Duration{rdmatest.SIW: 10 * time.Second, rdmatest.ERDMA: 20 * time.Second}
	inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, k rdmatest.Kind) {
		l := must(rdmacm.Listen(t.Context(), f.Host(1).Addr()+":0"))(t)
		defer l.Close()
		start := time.Now()
		var took time.Duration
		dialled := make(chan error, 1)
		go func() {
			c, err := rdmacm.Dial(context.Background(), l.Addr().String())
			took = time.Since(start)
			if err == nil {
				<-c.Done()
				err = c.Close()
			}
			dialled <- err
		}()
		r := must(l.Next(t.Context()))(t)
		time.Sleep(16 * time.Minute)
		c, err := r.Accept(t.Context(), nil)
		if limit := limits[k]; limit > 0 {
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Error("accepted:", err)
			}
			if err := <-dialled; !errors.Is(err, syscall.ETIMEDOUT) || took != limit {
				t.Error(err, took)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Close(), <-dialled); err != nil {
			t.Error(err)
		}
	})
}

// TestConfirmationLost checks that over RoCE the third message of a handshake is sent again when the
// second one is.
func TestConfirmationLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.New(t)
		f.SetLatency(time.Second)
		time.AfterFunc(2500*time.Millisecond, func() { f.SetLoss(1) }) // it is on its way
		time.AfterFunc(4*time.Second, func() { f.SetLoss(0) })
		l := must(rdmacm.Listen(t.Context(), f.Host(1).Addr()+":0"))(t)
		defer l.Close()
		start := time.Now()
		served := make(chan error, 1)
		go func() {
			c, err := l.Accept(context.Background())
			if took := time.Since(start); took != (1000+4096+2000)*time.Millisecond {
				t.Errorf("accepted after %v", took)
			}
			if err == nil {
				<-c.Done()
				err = c.Close()
			}
			served <- err
		}()
		c := must(rdmacm.Dial(t.Context(), l.Addr().String()))(t)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("connected after %v", took)
		}
		time.Sleep(10 * time.Second)
		if err := errors.Join(c.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
}

// TestSendToClosed checks that over iWARP a send to a connection that is closed ends this side, also
// before the other's FIN is here.
func TestSendToClosed(t *testing.T) {
	for _, k := range []rdmatest.Kind{rdmatest.SIW, rdmatest.ERDMA} {
		synctest.Test(t, func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: k})
			a, b := meet(t, f, nil)
			heal := f.Partition(f.Host(0), f.Host(1))
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			heal()
			wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled}
			if _, err := b.QP().PostSend([]verbs.SendWR{wr}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			select {
			case <-b.Done():
			default:
				t.Errorf("%v: the connection goes on", k)
			}
		})
	}
}

// TestCloseBehindCut checks that over siw TCP has the data that was sent before a connection was
// closed, and delivers it when the network is back.
func TestCloseBehindCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.SIW})
		a, b := meet(t, f, nil)
		from, to := region(t, a, nil), region(t, b, nil)
		copy(from.Bytes(), "12345678")
		heal := f.Partition(f.Host(0), f.Host(1))
		wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{from.SGE(0, 8)}, RemoteAddr: to.Addr(), RKey: to.RKey()}
		if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		heal()
		<-b.Done()
		if got := string(to.Bytes()[:8]); got != "12345678" {
			t.Errorf("%q", got)
		}
	})
}

// TestAckTimeout checks that the program's timeout is in its queue pair, over RoCE.
func TestAckTimeout(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		t.Run(kind.String(), func(t *testing.T) {
			dialled, _ := meetBy(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: kind}), &rdmacm.Dialer{Config: rdmacm.Config{TransportOptions: rdmacm.TransportOptions{AckTimeout: 8 * time.Second}}})
			if a, err := dialled.QP().Query(); err != nil || a.AckTimeout != 4096<<21 {
				t.Error(a, err)
			}
		})
	}
}

// TestDeviceAttr checks that each device is a system of its own, with pages as they are here.
func TestDeviceAttr(t *testing.T) {
	onKinds(t, func(t *testing.T, f *rdmatest.Fabric) {
		d := closed(t, must(uverbs.Open(f.Host(0).Device(0).Name()))(t))
		a := must(d.QueryDevice())(t)
		if a.NodeGUID == 0 || a.SysImageGUID != a.NodeGUID || a.PageSizeCap&4096 == 0 {
			t.Errorf("%v, %v, pages of %#x", a.NodeGUID, a.SysImageGUID, a.PageSizeCap)
		}
	})
}

// TestEventLimits checks that over RoCE an event has the limits of READs from the view of the side
// that gets it.
func TestEventLimits(t *testing.T) {
	f := rdmatest.New(t)
	from, to := netip.MustParseAddr(f.Host(0).Addr()), netip.MustParseAddr(f.Host(1).Addr())
	ch := must(rdmacm.NewEventChannelFor(from))(t)
	defer ch.Close()
	next := func(want rdmacm.EventType) *rdmacm.Event {
		t.Helper()
		ev := must(ch.Get(t.Context()))(t)
		if ev.Type != want {
			t.Fatalf("%v, want %v", ev.Type, want)
		}
		ev.Ack()
		return ev
	}
	newID := func() *rdmacm.ID { return must(ch.NewID(verbs.PortSpaceTCP, verbs.QPTypeRC))(t) }
	l, id := newID(), newID()
	defer l.Close()
	defer id.Close()
	for _, err := range []error{l.Bind(netip.AddrPortFrom(to, 7471)), l.Listen(1),
		id.ResolveAddr(netip.AddrPortFrom(from, 0), netip.AddrPortFrom(to, 7471), time.Minute)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	next(rdmacm.EventAddrResolved)
	if err := id.ResolveRoute(time.Minute); err != nil {
		t.Fatal(err)
	}
	next(rdmacm.EventRouteResolved)
	if err := id.Connect(t.Context(), &rdmacm.ConnParam{InitiatorDepth: 2, ResponderResources: 3}); err != nil {
		t.Fatal(err)
	}
	request := next(rdmacm.EventConnectRequest)
	defer request.ID.Close()
	if p := request.Param; p.ResponderResources != 2 || p.InitiatorDepth != 3 {
		t.Errorf("the request: serve %d, issue %d", p.ResponderResources, p.InitiatorDepth)
	}
	if err := request.ID.Accept(&rdmacm.ConnParam{InitiatorDepth: 1, ResponderResources: 2}); err != nil {
		t.Fatal(err)
	}
	if p := next(rdmacm.EventConnectResponse).Param; p.ResponderResources != 1 || p.InitiatorDepth != 2 {
		t.Errorf("the answer: serve %d, issue %d", p.ResponderResources, p.InitiatorDepth)
	}
	own := must(id.QueryAddr())(t)
	for _, end := range []*rdmacm.ID{id, request.ID} {
		attr, _, err := end.InitQPAttr(verbs.QPStateRTR)
		if want := (uint32(own.Local.Port())*31 + 7471) % (1 << 20); err != nil || attr.AH.FlowLabel != want {
			t.Errorf("flow label %#x, want %#x: %v", attr.AH.FlowLabel, want, err)
		}
	}
}

// TestBacklog checks that no more connect requests wait for a listener's program than it allows.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const backlog = 2
		f := rdmatest.New(t)
		from, to := netip.MustParseAddr(f.Host(0).Addr()), netip.AddrPortFrom(netip.MustParseAddr(f.Host(1).Addr()), 7471)
		requests := closed(t, must(rdmacm.NewEventChannelFor(to.Addr()))(t))
		l := closed(t, must(requests.NewID(verbs.PortSpaceTCP, verbs.QPTypeRC))(t))
		if err := errors.Join(l.Bind(to), l.Listen(backlog)); err != nil {
			t.Fatal(err)
		}
		answers := closed(t, must(rdmacm.NewEventChannelFor(from))(t))
		get := func(ch *rdmacm.EventChannel) (*rdmacm.Event, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // less than until a request comes again
			defer cancel()
			return ch.Get(ctx)
		}
		for range backlog + 3 {
			id := closed(t, must(answers.NewID(verbs.PortSpaceTCP, verbs.QPTypeRC))(t))
			err := id.ResolveAddr(netip.AddrPortFrom(from, 0), to, time.Minute)
			must(get(answers))(t).Ack()
			err = errors.Join(err, id.ResolveRoute(time.Minute))
			must(get(answers))(t).Ack()
			if err := errors.Join(err, id.Connect(t.Context(), nil)); err != nil {
				t.Fatal(err)
			}
		}
		got := 0
		for {
			ev, err := get(requests)
			if err != nil {
				break
			}
			ev.Ack()
			closed(t, ev.ID)
			got++
		}
		if got != backlog {
			t.Errorf("%d requests wait, want %d", got, backlog)
		}
	})
}

// TestTimeWait checks that an ID over RoCE learns that its connection's numbers are free as late as
// Linux says it, after DISCONNECTED.
func TestTimeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.New(t)
		from, to := netip.MustParseAddr(f.Host(0).Addr()), netip.AddrPortFrom(netip.MustParseAddr(f.Host(1).Addr()), 7471)
		var channels [2]*rdmacm.EventChannel
		var ids [2]*rdmacm.ID
		for i := range ids {
			channels[i] = closed(t, must(rdmacm.NewEventChannelFor(from))(t))
			ids[i] = must(channels[i].NewID(verbs.PortSpaceTCP, verbs.QPTypeRC))(t)
		}
		next := func(i int, want rdmacm.EventType) *rdmacm.Event {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ev := must(channels[i].Get(ctx))(t)
			if ev.Type != want {
				t.Fatalf("%v, want %v", ev.Type, want)
			}
			ev.Ack()
			return ev
		}
		a, b := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all), newNode(t, f.Host(1).Device(0), verbs.QPTypeRC, all)
		l, id := ids[0], ids[1]
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		do(l.Bind(to))
		do(l.Listen(1))
		do(id.ResolveAddr(netip.AddrPortFrom(from, 0), to, time.Minute))
		next(1, rdmacm.EventAddrResolved)
		do(id.ResolveRoute(time.Minute))
		next(1, rdmacm.EventRouteResolved)
		do(a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState))
		do(b.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState))
		do(id.AttachQP(a.qp))
		do(id.Connect(t.Context(), nil))
		child := next(0, rdmacm.EventConnectRequest).ID
		do(child.AttachQP(b.qp))
		do(child.Accept(nil))
		next(1, rdmacm.EventEstablished)
		next(0, rdmacm.EventEstablished)
		do(id.Disconnect())
		next(0, rdmacm.EventDisconnected)
		start := time.Now()
		do(child.Disconnect())
		next(1, rdmacm.EventDisconnected)
		for i := range channels {
			next(i, rdmacm.EventTimewaitExit)
			if took := time.Since(start); took != 512*time.Millisecond {
				t.Errorf("after %v", took)
			}
		}
		for _, id := range []*rdmacm.ID{id, child, l} {
			do(id.Close())
		}
	})
}
