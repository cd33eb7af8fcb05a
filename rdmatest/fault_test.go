package rdmatest_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/test/refusals"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// bubble runs a test on two hosts with a device of kind RXE each, in a bubble.
func bubble(t *testing.T, test func(t *testing.T, f *rdmatest.Fabric)) {
	synctest.Test(t, func(t *testing.T) { test(t, rdmatest.New(t)) })
}

func TestLatency(t *testing.T) {
	bubble(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := two(t, f, verbs.QPTypeRC, all)
		f.SetLatency(time.Second)
		start := time.Now()
		a.post(a.to(b, verbs.OpSend, 8))
		if wc := b.next(); time.Since(start) != time.Second {
			t.Errorf("%s after %v", outcome(wc), time.Since(start))
		}
		if wc := a.next(); time.Since(start) != 2*time.Second {
			t.Errorf("%s after %v", outcome(wc), time.Since(start))
		}
	})
}

func TestBandwidth(t *testing.T) {
	bubble(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := two(t, f, verbs.QPTypeRC, all)
		f.SetBandwidth(100)
		start := time.Now()
		for range 2 {
			a.post(a.to(b, verbs.OpSend, 50))
		}
		for i := range 2 {
			b.next()
			if want := time.Duration(i+1) * time.Second / 2; time.Since(start) != want {
				t.Errorf("message %d after %v, want %v", i, time.Since(start), want)
			}
		}
	})
}

// What RC loses it sends again, and gives up in the end. UD does not.
func TestLoss(t *testing.T) {
	bubble(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := two(t, f, verbs.QPTypeRC, all)
		f.SetLoss(0.5)
		for range 2 {
			a.post(a.to(b, verbs.OpSend, 8))
			if got := outcome(a.next()); got != "1 SEND success" {
				t.Error(got)
			}
		}
		c, d := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all), newNode(t, f.Host(1).Device(0), verbs.QPTypeRC, all)
		f.SetLoss(1)
		a.post(a.to(b, verbs.OpRDMAWrite, 8))
		time.Sleep(10 * time.Minute) // 9,000 retries: Connect asks for 7, for which rxe retries without limit
		if n, err := a.cq.Poll(make([]verbs.WC, 1)); n > 0 || err != nil {
			t.Error("it gave up:", n, err)
		}
		f.SetLoss(0)
		if got := outcome(a.next()); got != "1 RDMA_WRITE success" {
			t.Error(got)
		}
		c.connect(d, func(a *verbs.QPAttr) { a.RetryCnt = 6 })
		d.connect(c, nil)
		f.SetLoss(1)
		start := time.Now()
		c.post(c.to(d, verbs.OpRDMAWrite, 8))
		const tries, timeout = 7, 4096 * time.Nanosecond << 14 // the first one, and 6 retries
		if got := outcome(c.next()); got != "1 transport retries exceeded" || time.Since(start) != tries*timeout {
			t.Error(got, time.Since(start))
		}
		e, g := two(t, f, verbs.QPTypeUD, all)
		e.post(e.to(g, verbs.OpSend, 8))
		synctest.Wait()
		if got := g.story(); got != untouched {
			t.Error(got)
		}
	})
}

func TestReordering(t *testing.T) {
	bubble(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := two(t, f, verbs.QPTypeUD, all)
		f.SetReordering(1)
		a.mr.Bytes()[sendFrom] = 1
		a.post(a.to(b, verbs.OpSend, 1))
		f.SetReordering(0)
		f.SetReordering(1)
		a.mr.Bytes()[sendFrom] = 2
		a.post(a.to(b, verbs.OpSend, 1))
		if n, err := b.cq.Poll(make([]verbs.WC, 2)); n != 1 || err != nil {
			t.Errorf("%d arrived: %v", n, err)
		}
		f.SetReordering(0)
		if outcome(b.next()) != "1001 RECV success 41" || b.mr.Bytes()[40] != 1 || b.mr.Bytes()[recvSize+40] != 2 {
			t.Error("the second did not come")
		}
	})
	overtakes := false
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Seed: seed})
			a, b := two(t, f, verbs.QPTypeUD, all)
			f.SetReordering(0.5)
			for i := range 2 {
				a.mr.Bytes()[sendFrom] = byte(i + 1)
				a.post(a.to(b, verbs.OpSend, 1))
			}
			f.SetReordering(0)
			overtakes = overtakes || b.mr.Bytes()[40] == 2
		})
	}
	if !overtakes {
		t.Error("nothing was overtaken")
	}
}

// A peer that has no receive is waited for, as often as was said.
func TestStallReceives(t *testing.T) {
	bubble(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := two(t, f, verbs.QPTypeRC, all)
		resume := f.Host(1).Device(0).StallReceives()
		a.post(a.to(b, verbs.OpSend, 8))
		time.Sleep(time.Second)
		if n, err := a.cq.Poll(make([]verbs.WC, 1)); n > 0 || err != nil {
			t.Error("it did not wait:", n, err)
		}
		resume()
		if got := outcome(a.next()); got != "1 SEND success" {
			t.Error(got)
		}
		c, d := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all), newNode(t, f.Host(1).Device(0), verbs.QPTypeRC, all)
		c.connect(d, func(a *verbs.QPAttr) { a.RNRRetry = 2 })
		d.connect(c, nil)
		start := time.Now()
		c.post(c.to(d, verbs.OpSend, 8)) // nothing was posted
		if got := outcome(c.next()); got != "1 receiver-not-ready retries exceeded" || time.Since(start) != 2*640*time.Microsecond {
			t.Error(got, time.Since(start))
		}
	})
}

func TestLinkDown(t *testing.T) {
	bubble(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := two(t, f, verbs.QPTypeRC, all)
		d := f.Host(1).Device(0)
		d.SetLink(false)
		if ev, err := b.dev.AsyncEvent(t.Context()); err != nil || ev.Type != verbs.EventPortErr || ev.Port != 1 {
			t.Error(ev, err)
		}
		if p := must(b.dev.QueryPort(1))(t); p.State != verbs.PortDown {
			t.Error(p.State)
		}
		a.post(a.to(b, verbs.OpSend, 8))
		time.Sleep(100 * time.Millisecond)
		d.SetLink(true)
		if ev, err := b.dev.AsyncEvent(t.Context()); err != nil || ev.Type != verbs.EventPortActive {
			t.Error(ev, err)
		}
		if got := outcome(a.next()); got != "1 SEND success" {
			t.Error(got)
		}
	})
}

// Over iWARP sent data waits for the link.
func TestLinkDownSIW(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.SIW})
		a, b := meet(t, f, nil)
		one, other := newPlayer(t, a), newPlayer(t, b)
		f.Host(0).Device(0).SetLink(false)
		if err := one.send(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if n, err := b.RecvCQ().Poll(make([]verbs.WC, 1)); n > 0 || err != nil {
			t.Error("it arrived", err)
		}
		f.Host(0).Device(0).SetLink(true)
		if err := other.recv(); err != nil {
			t.Error(err)
		}
	})
}

// TestRemove removes a device that two programs have open. Each gets the event, all its calls and
// waits fail, and it closes everything.
func TestRemove(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.ERDMA, rdmatest.MLX5} {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
		d := f.Host(1).Device(0)
		type program struct {
			dev *uverbs.Device
			pd  *uverbs.PD
			ch  *uverbs.CompChannel
			cq  *uverbs.CQ
		}
		var programs [2]program
		waited := make(chan error)
		for i := range programs {
			p := &programs[i]
			p.dev = must(uverbs.Open(d.Name()))(t)
			p.pd = must(p.dev.AllocPD())(t)
			p.ch = must(p.dev.CreateCompChannel())(t)
			p.cq = must(p.dev.CreateCQ(1, &uverbs.CQOptions{Channel: p.ch}))(t)
			go func() { _, err := p.ch.Get(t.Context()); waited <- err }()
			go func() { _, err := p.cq.Wait(t.Context(), make([]verbs.WC, 1)); waited <- err }()
		}
		d.Remove()
		for range 2 * len(programs) {
			if err := <-waited; !errors.Is(err, syscall.EIO) {
				t.Error("a wait:", err)
			}
		}
		for _, p := range programs {
			if ev, err := p.dev.AsyncEvent(t.Context()); err != nil || ev.Type != verbs.EventDeviceFatal {
				t.Error(ev, err)
			}
			if _, err := p.dev.AsyncEvent(t.Context()); !errors.Is(err, syscall.EIO) {
				t.Error("the next event:", err)
			}
			if _, err := p.dev.QueryPort(1); !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
			if _, err := p.pd.AllocMR(1, 0, nil); !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
			if _, err := uverbs.Open(d.Name()); !errors.Is(err, verbs.ErrNoDevice) {
				t.Error("it is still found:", err)
			}
			for _, c := range []io.Closer{p.cq, p.ch, p.pd, p.dev} {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestRemoveInUse checks that the removal of devices in software takes nothing from programs. The
// kernel's are asked in test/device.
func TestRemoveInUse(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.SIW} {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
		d := f.Host(0).Device(0)
		dev := must(uverbs.Open(d.Name()))(t)
		pd := must(dev.AllocPD())(t)
		d.Remove()
		if p, err := dev.QueryPort(1); err != nil || p.State != verbs.PortActive {
			t.Error(kind, p, err)
		}
		if _, err := uverbs.Open(d.Name()); !errors.Is(err, verbs.ErrNoDevice) {
			t.Error(kind, "it is still found:", err)
		}
		mr := must(pd.AllocMR(1, 0, nil))(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if ev, err := dev.AsyncEvent(ctx); !errors.Is(err, context.Canceled) {
			t.Error(kind, ev, err)
		}
		for _, c := range []io.Closer{mr, pd, dev} {
			if err := c.Close(); err != nil {
				t.Error(kind, err)
			}
		}
	}
}

// A connection ends when a device does.
func TestRemoveConnected(t *testing.T) {
	onKinds(t, func(t *testing.T, f *rdmatest.Fabric) {
		l := must(rdmacm.Listen(t.Context(), f.Host(1).Addr()+":0"))(t)
		defer l.Close()
		accepted := make(chan *rdmacm.Conn, 1)
		go func() { c, _ := l.Accept(context.Background()); accepted <- c }()
		c := must(rdmacm.Dial(t.Context(), l.Addr().String()))(t)
		f.Host(0).Device(0).Remove()
		<-c.Done()
		if c.Err() == nil {
			t.Error("no reason")
		}
		for _, c := range []*rdmacm.Conn{c, <-accepted} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestMemlock(t *testing.T) {
	f := rdmatest.New(t)
	n := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all)
	f.Host(0).SetMemlock(memory + 4096)
	first := must(n.pd.AllocMR(4096, 0, nil))(t)
	if _, err := n.pd.AllocMR(4096, 0, nil); !errors.Is(err, syscall.ENOMEM) ||
		!strings.HasSuffix(err.Error(), ": the device's host allows 12 KiB of pinned memory and the region needs 4 KiB more than is pinned already: raise the limit (rdmatest.Host.SetMemlock)") {
		t.Error(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	closed(t, must(n.pd.AllocMR(4096, 0, nil))(t))
	f.Host(0).SetMemlock(-1)
	closed(t, must(n.pd.AllocMR(1<<20, 0, nil))(t))
	f.Host(0).Device(0).Fail(rdmatest.CallRegMR, 0, syscall.ENOMEM)
	if _, err := n.pd.AllocMR(4096, 0, nil); !errors.Is(err, syscall.ENOMEM) || strings.Contains(err.Error(), "allows") {
		t.Errorf("there is no limit: %v", err)
	}
}

// TestFamilies checks the error for an address whose two GIDs are of different families.
func TestFamilies(t *testing.T) {
	n := newNode(t, rdmatest.New(t).Host(0).Device(0), verbs.QPTypeRC, all)
	other := must(n.dev.ChooseGID(1, &uverbs.GIDChoice{IPv6: true}))(t)
	why := fmt.Sprintf("DGID is %v, and the GID at SGIDIndex %d is %v: both must be IPv4 or both IPv6 (Device.ChooseGID)", other.GID.Addr(), n.gid.Index, n.gid.GID.Addr())
	ah := verbs.AHAttr{Global: true, Port: 1, DGID: other.GID, SGIDIndex: n.gid.Index}
	if _, err := n.pd.CreateAH(&ah); !errors.Is(err, syscall.EINVAL) || !strings.HasSuffix(err.Error(), ": "+why) {
		t.Errorf("%v, want %s", err, why)
	}
	if err := n.qp.Connect(&verbs.QPAttr{AH: ah, DestQPN: n.qp.QPN()}); !errors.Is(err, syscall.EINVAL) || !strings.HasSuffix(err.Error(), ": AH."+why) {
		t.Errorf("%v, want AH.%s", err, why)
	}
}

func TestFail(t *testing.T) {
	f := rdmatest.New(t)
	d := f.Host(0).Device(0)
	dev := closed(t, must(uverbs.Open(d.Name()))(t))
	fault := d.Fail(rdmatest.CallAllocPD, 1, syscall.ENOSPC)
	closed(t, must(dev.AllocPD())(t))
	if fault.Struck() {
		t.Error("too soon")
	}
	if _, err := dev.AllocPD(); !errors.Is(err, syscall.ENOSPC) || !fault.Struck() || fault.Stop() {
		t.Error(err)
	}
	if !d.Fail(rdmatest.AnyCall, 0, syscall.EIO).Stop() {
		t.Error("it was struck")
	}
	closed(t, must(dev.AllocPD())(t))
}

func TestFailSend(t *testing.T) {
	bubble(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := two(t, f, verbs.QPTypeRC, all)
		f.Host(0).Device(0).FailSend(1, verbs.StatusFatalErr)
		a.post(a.to(b, verbs.OpSend, 8))
		a.post(a.to(b, verbs.OpSend, 8))
		got := []string{outcome(a.next()), outcome(a.next())}
		if want := []string{"1 SEND success", "1 " + verbs.StatusFatalErr.String()}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := b.story(); got != "1000 RECV success 8, 1001 work request flushed; RTS" {
			t.Error(got)
		}
	})
}

func TestFailRecv(t *testing.T) {
	bubble(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := two(t, f, verbs.QPTypeRC, all)
		f.Host(1).Device(0).FailRecv(0, verbs.StatusLocProtErr)
		a.post(a.to(b, verbs.OpSend, 8))
		synctest.Wait()
		if got := b.story(); got != "1000 local protection error, 1001 work request flushed; ERR" {
			t.Error(got)
		}
	})
}

// A connection ends in the middle of a message: half of it is there, and both ends know.
func TestCutSend(t *testing.T) {
	onKinds(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := meet(t, f, nil)
		from, to := region(t, a, nil), region(t, b, nil)
		copy(from.Bytes(), "12345678")
		f.Host(0).Device(0).CutSend(0, 4)
		wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{from.SGE(0, 8)}, RemoteAddr: to.Addr(), RKey: to.RKey()}
		if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
			t.Fatal(err)
		}
		<-a.Done()
		<-b.Done()
		if got := string(to.Bytes()[:8]); got != "1234\x00\x00\x00\x00" {
			t.Errorf("%q", got)
		}
	})
}

func TestCM(t *testing.T) {
	onKinds(t, func(t *testing.T, f *rdmatest.Fabric) {
		if _, err := rdmacm.Dial(t.Context(), f.Host(1).Addr()+":1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error("nobody listens:", err)
		}
		f.FailCM(rdmatest.CMResolveAddr, syscall.ENOMEM)
		if _, err := rdmacm.Dial(t.Context(), f.Host(1).Addr()+":1"); !errors.Is(err, syscall.ENOMEM) {
			t.Error(err)
		}
		held := f.HoldCM(rdmatest.CMResolveRoute)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-held; cancel() }()
		if _, err := rdmacm.Dial(ctx, f.Host(1).Addr()+":1"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// While a fabric is paused nothing arrives.
func TestPause(t *testing.T) {
	f := rdmatest.New(t)
	a, b := two(t, f, verbs.QPTypeRC, all)
	stuck, resume := f.Pause()
	a.post(a.to(b, verbs.OpSend, 8))
	<-stuck
	for _, n := range []*node{a, b} {
		if k, err := n.cq.Poll(make([]verbs.WC, 1)); k != 0 || err != nil {
			t.Error(k, err)
		}
	}
	resume()
	if got := outcome(b.next()); got != "1000 RECV success 8" {
		t.Error(got)
	}
}

// A strict fabric fails the test for a mistake.
func TestStrict(t *testing.T) {
	strict := &recorder{T: t}
	f := rdmatest.NewWith(strict, &rdmatest.Options{Strict: true})
	a, b := two(t, f, verbs.QPTypeRC, all)
	wr := a.to(b, verbs.OpRDMAWrite, 8)
	wr.RKey ^= 0x5500
	a.post(wr)
	if len(strict.errors) != 1 {
		t.Errorf("%q", strict.errors)
	}
}

// recorder is a test whose errors are none.
type recorder struct {
	*testing.T
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

const (
	lost      = "1000 work request flushed, 1001 work request flushed; ERR"
	broken    = "1000 local QP operation error, 1001 work request flushed; ERR"
	untouched = "1000 work request flushed, 1001 work request flushed; RTS"
	refused   = "1 remote access error; ERR"
)

// The outcome of valid requests.
func TestRXEOutcomes(t *testing.T) {
	const rc, uc, ud = verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD
	const send, arrived = verbs.OpSend, "1000 RECV success 8, 1001 work request flushed; RTS"
	runTrials(t, rdmatest.RXE, map[string]trial{
		"SEND":            {rc, send, 8, all, nil, "1 SEND success; RTS", arrived},
		"WRITE_WITH_IMM":  {rc, verbs.OpRDMAWriteImm, 8, all, nil, "1 RDMA_WRITE success; RTS", "1000 RECV_RDMA_WITH_IMM success 8, 1001 work request flushed; RTS"},
		"SEND of nothing": {rc, send, 0, all, func(wr *verbs.SendWR) { wr.SGL[0] = verbs.SGE{} }, "1 SEND success; RTS", "1000 RECV success 0, 1001 work request flushed; RTS"},
		"FETCH_ADD":       {rc, verbs.OpFetchAdd, 8, all, nil, "1 FETCH_ADD success; RTS", untouched},
		"UC SEND":         {uc, send, 8, all, nil, "1 SEND success; RTS", arrived},
		"UD SEND":         {ud, send, 8, all, nil, "1 SEND success; RTS", "1000 RECV success 48, 1001 work request flushed; RTS"},
	})
}

// TestRXEFailures checks that failures end as on Linux 6.12, which TestRxeErrors in package test
// holds to the same table.
func TestRXEFailures(t *testing.T) {
	for _, c := range refusals.Failures(refusals.Layout{Memory: memory, Source: sendFrom, Recv: recvSize}) {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fails(t, &c) })
		})
	}
}

func fails(t *testing.T, c *refusals.Failure) {
	const peer = all &^ verbs.AccessMWBind
	f, mine, his, hisQP := rdmatest.New(t), cmp.Or(c.Mine, everything), cmp.Or(c.His, everything), peer|verbs.AccessFlushGlobal
	if c.HisQP != nil {
		hisQP = *c.HisQP
	}
	a, b := newNodeFor(t, f.Host(0).Device(0), c.Type(), mine, peer), newNodeFor(t, f.Host(1).Device(0), c.Type(), his, hisQP)
	a.change, b.change = c.MineAttr, c.HisAttr
	a.meets(b)
	binary.NativeEndian.PutUint64(b.mr.Bytes(), refusals.Before)
	wr := c.Request(a.to(b, c.Op, c.Size), a.mr.SGE(sendFrom, c.Size))
	if c.Closed {
		gone := must(b.pd.AllocMR(64, all, nil))(t)
		wr.RemoteAddr, wr.RKey = gone.Addr(), gone.RKey()
		if err := gone.Close(); err != nil {
			t.Fatal(err)
		}
	}
	a.post(wr)
	synctest.Wait()
	if got := binary.NativeEndian.Uint64(b.mr.Bytes()); c.Changes(got) {
		t.Errorf("%d in memory", got)
	}
	want := c.Requester
	if alive := strings.HasSuffix(c.Requester, "RTS") && strings.HasSuffix(c.Responder, "RTS"); alive && c.Type() != verbs.QPTypeRC {
		next := a.to(b, verbs.OpSend, 8)
		next.WRID = 2
		a.post(next)
		synctest.Wait()
		want = strings.Replace(want, ";", ", 2 SEND success;", 1)
	}
	if got := a.story(); got != want {
		t.Errorf("requester: %s, want %s", got, want)
	}
	if got := b.story(); got != c.Responder {
		t.Errorf("responder: %s, want %s", got, c.Responder)
	}
}

// A trial is a work request to a peer, and how it ends for both.
type trial struct {
	typ                  verbs.QPType
	op                   verbs.Opcode
	size                 int
	his                  verbs.Access // the access that the peer allows to its memory
	change               func(*verbs.SendWR)
	requester, responder string
}

func badRKey(wr *verbs.SendWR) { wr.RKey ^= 0x5500 }
func badLKey(wr *verbs.SendWR) { wr.SGL[0].LKey ^= 0x5500 }

func runTrials(t *testing.T, kind rdmatest.Kind, trials map[string]trial) {
	runTrialsOn(t, func(t *testing.T) *rdmatest.Fabric { return rdmatest.NewWith(t, &rdmatest.Options{Kind: kind}) }, trials)
}

func runTrialsOn(t *testing.T, fabric func(*testing.T) *rdmatest.Fabric, trials map[string]trial) {
	for name, c := range trials {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := two(t, fabric(t), c.typ, c.his)
				wr := a.to(b, c.op, c.size)
				if c.op == verbs.OpBindMW {
					wr.SGL, wr.Bind = nil, a.unbindable(t)
				}
				if c.change != nil {
					c.change(&wr)
				}
				a.post(wr)
				synctest.Wait()
				if got := a.story(); got != c.requester {
					t.Errorf("requester: %s, want %s", got, c.requester)
				}
				if got := b.story(); got != c.responder {
					t.Errorf("responder: %s, want %s", got, c.responder)
				}
			})
		})
	}
}

// unbindable is a window of a region that lets none be bound.
func (n *node) unbindable(t *testing.T) *verbs.BindMW {
	mr := closed(t, must(n.pd.AllocMR(64, verbs.AccessLocalWrite, nil))(t))
	mw := closed(t, must(n.pd.AllocMW(verbs.MWType1))(t))
	return &verbs.BindMW{MW: mw, RKey: uverbs.IncRKey(mw.RKey()), MR: mr, Addr: mr.Addr(), Length: 8, Access: verbs.AccessRemoteWrite}
}
