package rdmatest_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/uverbs"
)

// inBubbles runs a test on two hosts of each kind, each time in a bubble of its own.
func inBubbles(t *testing.T, test func(t *testing.T, f *rdmatest.Fabric, k rdmatest.Kind)) {
	for _, k := range rdmatest.Kinds {
		t.Run(k.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: k}), k) })
		})
	}
}

// separations are the ways to separate two hosts.
var separations = map[string]func(f *rdmatest.Fabric) (undo func()){
	"link": func(f *rdmatest.Fabric) func() {
		f.Host(1).Device(0).SetLink(false)
		return func() { f.Host(1).Device(0).SetLink(true) }
	},
	"loss":      func(f *rdmatest.Fabric) func() { f.SetLoss(1); return func() { f.SetLoss(0) } },
	"partition": func(f *rdmatest.Fabric) func() { return f.Partition(f.Host(1), f.Host(0)) },
}

// TestDialUnreachable: a host that nothing reaches refuses nothing. The connection manager gives up
// after a while.
func TestDialUnreachable(t *testing.T) {
	for name, separate := range separations {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, _ rdmatest.Kind) {
				undo := separate(f)
				start := time.Now()
				_, err := rdmacm.Dial(t.Context(), f.Host(1).Addr()+":1", nil)
				if took := time.Since(start); !errors.Is(err, syscall.ETIMEDOUT) || took < 2*time.Second || took > time.Minute {
					t.Error(err, took)
				}
				undo()
				if _, err := rdmacm.Dial(t.Context(), f.Host(1).Addr()+":1", nil); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Error("reachable again:", err)
				}
			})
		})
	}
}

// TestDialRemoved: over RoCE nobody answers for a device that was removed, 16 times in 73.7
// seconds; its network device, which iWARP uses, refuses.
func TestDialRemoved(t *testing.T) {
	inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, k rdmatest.Kind) {
		l := must(rdmacm.Listen(f.Host(1).Addr()+":0", nil))(t)
		defer l.Close()
		f.Host(1).Device(0).Remove()
		start := time.Now()
		_, err := rdmacm.Dial(t.Context(), l.Addr().String(), nil)
		want, wait := error(syscall.ETIMEDOUT), 16*(4096+2*256)*time.Millisecond
		if k == rdmatest.SIW || k == rdmatest.ERDMA {
			want, wait = syscall.ECONNREFUSED, 0
		}
		if took := time.Since(start); !errors.Is(err, want) || took != wait {
			t.Error(err, took)
		}
	})
}

// TestHandshakeLost: requests and answers that are lost are sent again, after the kernel's times:
// MADs after 4.608 and 4.096 seconds, SYNs after 1, 2 and 4, data of TCP after 0.2, 0.4 and so on.
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
			server, client *rdmacm.Config
			want           time.Duration
		}{{nil, &rdmacm.Config{Prepare: lose}, request}, {&rdmacm.Config{Prepare: lose}, nil, answer}} {
			l := must(rdmacm.Listen(f.Host(1).Addr()+":0", c.server))(t)
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
			conn := must(rdmacm.Dial(t.Context(), l.Addr().String(), c.client))(t)
			if took := time.Since(start); took != c.want {
				t.Errorf("connected after %v, want %v", took, c.want)
			}
			if err := errors.Join(conn.Close(), <-served, l.Close()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestDisconnectUnreachable: the peer hears of the end of a connection when there is a way to tell
// it, over iWARP, or never, over RoCE.
func TestDisconnectUnreachable(t *testing.T) {
	for name, separate := range separations {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, k rdmatest.Kind) {
				a, b := meet(t, f, nil)
				undo := separate(f)
				if err := a.Close(); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				select {
				case <-b.Done():
					t.Error("the peer heard of it:", b.Err())
				default:
				}
				time.Sleep(time.Minute)
				undo()
				time.Sleep(2 * time.Minute)
				isStream := k == rdmatest.SIW || k == rdmatest.ERDMA
				select {
				case <-b.Done():
					if !isStream {
						t.Error("the peer heard of it:", b.Err())
					}
				default:
					if isStream {
						t.Error("the peer did not hear of it")
					}
				}
			})
		})
	}
}

// TestDisconnectAgain: a connection that is disconnected and kept tries again until the peer
// hears.
func TestDisconnectAgain(t *testing.T) {
	inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, _ rdmatest.Kind) {
		a, b := meet(t, f, nil)
		heal := f.Partition(f.Host(0), f.Host(1))
		if err := a.Disconnect(); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		heal()
		<-b.Done()
		<-a.Done()
	})
}

// TestPartition: of three hosts two are parted; the third reaches both.
func TestPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Hosts: make([]rdmatest.HostOptions, 3)})
		heal := f.Partition(f.Host(0), f.Host(1))
		for _, c := range []struct {
			from, to int
			want     error
		}{{0, 1, syscall.ETIMEDOUT}, {1, 0, syscall.ETIMEDOUT}, {0, 2, syscall.ECONNREFUSED}, {2, 1, syscall.ECONNREFUSED}, {1, 1, syscall.ECONNREFUSED}} {
			ctx := f.Host(c.from).Context(t.Context())
			if _, err := rdmacm.Dial(ctx, f.Host(c.to).Addr()+":1", nil); !errors.Is(err, c.want) {
				t.Errorf("from %d to %d: %v, want %v", c.from, c.to, err, c.want)
			}
		}
		heal()
		heal()
		a, b := two(t, f, uverbs.QPTypeRC, all)
		defer f.Partition(f.Host(2), f.Host(1))()
		a.post(a.to(b, uverbs.OpSend, 8))
		if got := outcome(a.next()); got != "1 SEND success" {
			t.Error(got)
		}
		cut := f.Partition(f.Host(1), f.Host(0))
		a.post(a.to(b, uverbs.OpSend, 8))
		time.Sleep(time.Second)
		if n, err := a.cq.Poll(make([]uverbs.WC, 1)); n > 0 || err != nil {
			t.Error("it arrived:", err)
		}
		cut()
		if got := outcome(a.next()); got != "1 SEND success" {
			t.Error(got)
		}
	})
}

// TestAcceptAbandoned: a peer that gives up before it is accepted makes Accept fail as on Linux:
// ib_send_cm_rep answers EINVAL, siw and erdma answer ECONNRESET.
func TestAcceptAbandoned(t *testing.T) {
	inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, k rdmatest.Kind) {
		l := must(rdmacm.Listen(f.Host(1).Addr()+":0", nil))(t)
		defer l.Close()
		ctx, cancel := context.WithCancel(t.Context())
		dialled := make(chan error, 1)
		go func() { _, err := rdmacm.Dial(ctx, l.Addr().String(), nil); dialled <- err }()
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

// TestAckTimeouts: the default of the connection manager, and what the accepting side makes of
// another one, are those of Linux 6.12 (TestCMRxeAckTimeouts measures them).
func TestAckTimeouts(t *testing.T) {
	for _, c := range []struct{ set, dialled, accepted uint8 }{{0, 17, 17}, {15, 15, 16}, {21, 21, 21}} {
		dialled, accepted := meet(t, rdmatest.New(t), &rdmacm.Config{AckTimeout: c.set})
		for conn, want := range map[*rdmacm.Conn]uint8{dialled: c.dialled, accepted: c.accepted} {
			if a := must(conn.QP().Query())(t); a.Timeout != want || a.RetryCnt != 7 {
				t.Errorf("%d: %d, %d retries, want %d", c.set, a.Timeout, a.RetryCnt, want)
			}
		}
	}
}

// TestConnectionSurvives: a link may be down for seconds under a connection with the kernel's
// defaults.
func TestConnectionSurvives(t *testing.T) {
	for _, k := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		synctest.Test(t, func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: k})
			a, _ := meet(t, f, &rdmacm.Config{RetryCount: 6})
			f.Host(1).Device(0).SetLink(false)
			start := time.Now()
			wr := uverbs.SendWR{Opcode: uverbs.OpRDMAWrite, Flags: uverbs.SendSignaled}
			if _, err := a.QP().PostSend([]uverbs.SendWR{wr}); err != nil {
				t.Fatal(err)
			}
			wcs := make([]uverbs.WC, 1)
			_, err := a.SendCQ().Wait(t.Context(), wcs)
			if took := time.Since(start); err != nil || wcs[0].Status != uverbs.StatusRetryExcErr || took != 7*(4096*time.Nanosecond<<17) {
				t.Errorf("%v: %v, %v after %v", k, wcs[0].Status, err, took)
			}
		})
	}
}

// TestKill: a process that is killed takes nothing with it: its peer hears of it, its host
// refuses, and another one takes its place.
func TestKill(t *testing.T) {
	onKinds(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := meet(t, f, nil)
		l := must(rdmacm.Listen(f.Host(1).Addr()+":7471", nil))(t)
		mr := must(b.PD().AllocMR(4096, 0, nil))(t)
		f.Host(1).SetMemlock(4096)
		ended := make(chan error, 1)
		go func() { _, err := l.Accept(context.Background()); ended <- err }()
		f.Host(1).Kill()
		<-a.Done()
		<-b.Done()
		if err := <-ended; err == nil {
			t.Error("the listener did not end")
		}
		if _, err := b.QP().Query(); !errors.Is(err, syscall.EIO) {
			t.Error("a call of the dead program:", err)
		}
		if n := len(f.Host(1).Device(0).Objects()); n > 0 {
			t.Errorf("%q are left", f.Host(1).Device(0).Objects())
		}
		if _, err := rdmacm.Dial(t.Context(), f.Host(1).Addr()+":7471", nil); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error("nobody listens:", err)
		}
		dev := must(uverbs.Open(f.Host(1).Device(0).Name()))(t)
		pd := must(dev.AllocPD())(t)
		next := must(pd.AllocMR(4096, 0, nil))(t) // what the dead program had pinned is free
		if err := errors.Join(next.Close(), pd.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
		l = must(rdmacm.Listen(f.Host(1).Addr()+":7471", nil))(t)
		if err := errors.Join(l.Close(), mr.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestKillUnreachable: over RoCE nobody hears of a process that dies behind a cut.
func TestKillUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.New(t)
		a, _ := meet(t, f, nil)
		heal := f.Partition(f.Host(0), f.Host(1))
		f.Host(1).Kill()
		heal()
		time.Sleep(time.Hour)
		select {
		case <-a.Done():
			t.Error("it heard:", a.Err())
		default:
		}
	})
}

// TestContext: what dials with the context of a host leaves from there, unless it says otherwise.
func TestContext(t *testing.T) {
	onKinds(t, func(t *testing.T, f *rdmatest.Fabric) {
		l := must(rdmacm.Listen(f.Host(0).Addr()+":0", nil))(t)
		defer l.Close()
		dial := func(host int, cfg *rdmacm.Config) string {
			go func() {
				if c, err := l.Accept(context.Background()); err == nil {
					defer c.Close()
					<-c.Done()
				}
			}()
			c := must(rdmacm.Dial(f.Host(host).Context(t.Context()), l.Addr().String(), cfg))(t)
			defer c.Close()
			return c.Device().Info().Name
		}
		for i := range 2 {
			if got, want := dial(i, nil), f.Host(i).Device(0).Name(); got != want {
				t.Errorf("%s dialled, want %s", got, want)
			}
		}
		cfg := &rdmacm.Config{Source: netip.AddrPortFrom(f.Host(1).Device(0).Addrs()[0], 0)}
		if got, want := dial(0, cfg), f.Host(1).Device(0).Name(); got != want {
			t.Errorf("%s dialled, want %s", got, want)
		}
	})
}

// TestContextAbove: streams and messages leave from the host of the context too.
func TestContextAbove(t *testing.T) {
	f := rdmatest.New(t)
	ctx := f.Host(1).Context(t.Context())
	l := must(rsocket.Listen("rsocket", f.Host(0).Addr()+":0"))(t)
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.Close()
		}
		served <- err
	}()
	c := must((&rsocket.Dialer{}).DialContext(ctx, "rsocket", l.Addr().String()))(t)
	if got := c.LocalAddr().String(); !strings.HasPrefix(got, f.Host(1).Addr()+":") {
		t.Errorf("the stream leaves from %s", got)
	}
	if err := errors.Join(c.Close(), <-served, l.Close()); err != nil {
		t.Error(err)
	}
	m := must(msg.Listen(f.Host(0).Addr()+":0", nil))(t)
	go func() {
		c, err := m.Accept(context.Background())
		if err == nil {
			err = c.Close()
		}
		served <- err
	}()
	d := must(msg.Dial(ctx, m.Addr().String(), nil))(t)
	if got := d.LocalAddr().Addr().String(); got != f.Host(1).Addr() {
		t.Errorf("messages leave from %s", got)
	}
	if err := errors.Join(d.Close(), <-served, m.Close()); err != nil {
		t.Error(err)
	}
}

// TestSlowAccept: a program over RoCE has 15 times 66 seconds to accept, because its kernel says that
// it needs time. Over iWARP the side that dials gives up after 10 or 20 seconds.
func TestSlowAccept(t *testing.T) {
	limits := map[rdmatest.Kind]time.Duration{rdmatest.SIW: 10 * time.Second, rdmatest.ERDMA: 20 * time.Second}
	inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, k rdmatest.Kind) {
		l := must(rdmacm.Listen(f.Host(1).Addr()+":0", nil))(t)
		defer l.Close()
		start := time.Now()
		var took time.Duration
		dialled := make(chan error, 1)
		go func() {
			c, err := rdmacm.Dial(context.Background(), l.Addr().String(), nil)
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

// TestConfirmationLost: over RoCE the third message of a handshake is sent again when the second one
// is.
func TestConfirmationLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.New(t)
		f.SetLatency(time.Second)
		time.AfterFunc(2500*time.Millisecond, func() { f.SetLoss(1) }) // it is on its way
		time.AfterFunc(4*time.Second, func() { f.SetLoss(0) })
		l := must(rdmacm.Listen(f.Host(1).Addr()+":0", nil))(t)
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
		c := must(rdmacm.Dial(t.Context(), l.Addr().String(), nil))(t)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("connected after %v", took)
		}
		time.Sleep(10 * time.Second)
		if err := errors.Join(c.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
}

// TestSendToClosed: over iWARP what is sent to a connection that is closed ends this side, also
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
			wr := uverbs.SendWR{Opcode: uverbs.OpRDMAWrite, Flags: uverbs.SendSignaled}
			if _, err := b.QP().PostSend([]uverbs.SendWR{wr}); err != nil {
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
