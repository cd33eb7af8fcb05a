package uverbs_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func TestCloseNamesHolders(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name    string
		object  closer
		holders string
	}{
		{"PD", w.pd, "close MR 1, QP 1, SRQ 3 first"},
		{"CQ", w.cq, "close QP 1 first"},
		{"channel", w.channel, "close CQ 2 first"},
		{"device", w.dev, "close CQ 2, PD 0, completion channel "},
	} {
		if err := c.object.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.Contains(err.Error(), c.holders) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if n := len(w.k.Alive()); n != 5 {
		t.Errorf("a refused close destroyed something: %q", w.k.Alive())
	}
}

// TestCloseNil checks that Close of a nil pointer is an error, and no panic.
func TestCloseNil(t *testing.T) {
	for _, c := range []closer{(*uverbs.Device)(nil), (*uverbs.PD)(nil), (*uverbs.MR)(nil), (*uverbs.MW)(nil), (*uverbs.AH)(nil),
		(*uverbs.CompChannel)(nil), (*uverbs.CQ)(nil), (*uverbs.QP)(nil), (*uverbs.SRQ)(nil), (*uverbs.WQ)(nil), (*uverbs.RWQIndTable)(nil),
		(*uverbs.XRCD)(nil), (*uverbs.DM)(nil), (*uverbs.DMAH)(nil), (*uverbs.Counters)(nil), (*uverbs.Flow)(nil), (*uverbs.Endpoint)(nil)} {
		if err := c.Close(); !errors.Is(err, os.ErrInvalid) {
			t.Errorf("%T: %v", c, err)
		}
	}
	if verbs.ErrClosed != net.ErrClosed {
		t.Error("a value of its own for what is closed")
	}
}

func TestUseAfterClose(t *testing.T) {
	w := newWorld(t)
	w.close(t)
	if err := w.dev.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, wcs := context.Background(), make([]verbs.WC, 1)
	for name, err := range map[string]error{
		"AllocPD": failed(w.dev.AllocPD()), "CreateCompChannel": failed(w.dev.CreateCompChannel()),
		"CreateCQ": failed(w.dev.CreateCQ(1, nil)), "AllocMR": failed(w.pd.AllocMR(1, 0, nil)),
		"RegMR": failed(w.pd.RegMR(make([]byte, 1), 0)), "CreateQP": failed(w.pd.CreateQP(w.qpOptions())),
		"CreateSRQ": failed(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1})), "PostSend": failed(w.qp.PostSend(nil)),
		"PostRecv": failed(w.qp.PostRecv(nil)), "SRQ.PostRecv": failed(w.srq.PostRecv(nil)), "Poll": failed(w.cq.Poll(wcs)),
		"Arm": w.cq.Arm(false), "Wait": failed(w.cq.Wait(ctx, wcs)), "Modify": w.qp.Modify(&verbs.QPAttr{}, 0),
		"QP.Query": failed(w.qp.Query()), "SRQ.Query": failed(w.srq.Query()), "SetLimit": w.srq.SetLimit(1),
		"Device.QueryDevice": failed(w.dev.QueryDevice()), "QueryPort": failed(w.dev.QueryPort(1)), "GIDTable": failed(w.dev.GIDTable()),
		"QueryGID": failed(w.dev.QueryGID(1, 0)), "AsyncEvent": failed(w.dev.AsyncEvent(ctx)),
		"QP": w.qp.Close(), "SRQ": w.srq.Close(), "CQ": w.cq.Close(), "channel": w.channel.Close(), "MR": w.mr.Close(),
		"PD": w.pd.Close(), "device": w.dev.Close(),
	} {
		if !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("%s after close: %v", name, err)
		}
	}
}

// TestNumberUsedAgain checks that calls on a closed QP do not reach the QP that has its handle now.
func TestNumberUsedAgain(t *testing.T) {
	w := newWorld(t)
	old := w.qp
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	w.qp = must[*uverbs.QP](t)(w.pd.CreateQP(w.qpOptions()))
	if err := old.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
	if s := w.kqp().State(); s != uint8(verbs.QPStateInit) { // which siw's begin in
		t.Errorf("modifying a closed QP moved its successor to %v", verbs.QPState(s))
	}
}

func TestOtherDevice(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	opts := w.qpOptions()
	opts.RecvCQ = other.cq
	if _, err := w.pd.CreateQP(opts); !errors.Is(err, verbs.ErrClosed) || !strings.Contains(err.Error(), "another device") {
		t.Error(err)
	}
	if _, err := w.dev.CreateCQ(1, &uverbs.CQOptions{Channel: other.channel}); err == nil {
		t.Error("a CQ on another device's channel")
	}
}

// calls counts the calls of each goroutine.
type calls []*atomic.Int64

func (c *calls) counter() *atomic.Int64 {
	n := new(atomic.Int64)
	*c = append(*c, n)
	return n
}

// untilEach waits until each count is n.
func (c calls) untilEach(t *testing.T, n int64) {
	t.Helper()
	until(t, "called often enough", func() bool {
		return !slices.ContainsFunc(c, func(count *atomic.Int64) bool { return count.Load() < n })
	})
}

// most returns the highest count.
func (c calls) most() (n int64) {
	for _, count := range c {
		n = max(n, count.Load())
	}
	return n
}

// TestConcurrentUse does everything at once, for the race detector.
func TestConcurrentUse(t *testing.T) {
	w := newWorld(t)
	w.kqp().Connect(16, 16)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	var posts, others calls
	spawn := func(called *calls, f func() error) {
		count := called.counter()
		wg.Go(func() {
			for {
				err := f()
				if count.Add(1); errors.Is(err, verbs.ErrClosed) || errors.Is(err, context.Canceled) {
					return
				}
				runtime.Gosched()
			}
		})
	}
	kqp := w.kqp()
	done := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				kqp.Carry(0)
				if r, ok := kqp.TakeRecv(); ok {
					kqp.Received(r, &abi.IbUverbsWc{ByteLen: 1}, false)
				}
				runtime.Gosched()
			}
		}
	})
	for range 2 {
		spawn(&posts, func() error {
			return failed(w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}}))
		})
		spawn(&posts, func() error { return failed(w.qp.PostRecv([]verbs.RecvWR{{}, {}})) })
		spawn(&others, func() error { return failed(w.cq.Poll(make([]verbs.WC, 3))) })
		spawn(&others, func() error { return failed(w.cq.Wait(ctx, make([]verbs.WC, 1))) })
		spawn(&others, func() error { return failed(w.qp.Query()) })
		wg.Go(func() { _, _ = w.dev.AsyncEvent(ctx) })
	}
	others.untilEach(t, 20)
	posts.untilEach(t, 20)
	kqp.Break() // from here on posts are flushed; only polls see them, because they are faster than waiters
	posts.untilEach(t, posts.most()+20)
	close(done)
	if err := w.qp.Close(); err != nil {
		t.Error(err)
	}
	if err := w.cq.Close(); err != nil {
		t.Error(err)
	}
	w.close(t)
	if err := w.dev.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	wg.Wait()
}

// TestConcurrentClose checks that many goroutines close one object, and one succeeds.
func TestConcurrentClose(t *testing.T) {
	w := newWorld(t)
	results := make(chan error, 8)
	for range cap(results) {
		go func() { results <- w.qp.Close() }()
	}
	ok := 0
	for range cap(results) {
		if err := <-results; err == nil {
			ok++
		} else if !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
	}
	if ok != 1 {
		t.Errorf("%d closes succeeded", ok)
	}
}

// TestForgottenDevice checks that after a device and all its objects became unreachable, the runtime
// closes the file, unmaps the queues and unpins memory.
func TestForgottenDevice(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverSIW))
	live := regions.Live()
	func() {
		dev := must[*uverbs.Device](t)(openOn(siw0, k))
		pd := must[*uverbs.PD](t)(dev.AllocPD())
		must[*uverbs.MR](t)(pd.RegMR(make([]byte, 1000), 0))
		ch := must[*uverbs.CompChannel](t)(dev.CreateCompChannel())
		cq := must[*uverbs.CQ](t)(dev.CreateCQ(4, &uverbs.CQOptions{Channel: ch}))
		must[*uverbs.QP](t)(pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}}))
	}()
	for end := time.Now().Add(patience); !k.Closed() || regions.Live() > live; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("closed %v, %d regions live, %d at the start", k.Closed(), regions.Live(), live)
		}
		runtime.GC()
	}
	runtime.GC() // a Pinner forgotten while it pins would end the process here
	runtime.GC()
}

// TestRoCEHolders checks that address handles and windows keep their domain open.
func TestRoCEHolders(t *testing.T) {
	w := newRoCE(t)
	closeAll(t, w.ud, w.qp, w.srq, w.mr)
	for _, c := range []struct {
		last   closer
		holder string
	}{{w.ah, "close AH 7, MW 6 first"}, {w.mw, "close MW 6 first"}} {
		if err := w.pd.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.Contains(err.Error(), c.holder) {
			t.Error(err)
		}
		if err := c.last.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := w.pd.Close(); err != nil {
		t.Error(err)
	}
}

func TestRoCEUseAfterClose(t *testing.T) {
	w := newRoCE(t)
	access := verbs.AccessLocalWrite
	reset := &uverbs.ReregOptions{PD: w.pd, Access: &access}
	other := must[*uverbs.MR](t)(w.other.AllocMR(1, 0, nil))
	closeAll(t, w.ud, w.ah, w.mw)
	w.close(t)
	for name, err := range map[string]error{
		"CreateAH": failed(w.pd.CreateAH(address)), "AllocMW": failed(w.pd.AllocMW(verbs.MWType1)), "CQ.Resize": w.cq.Resize(9),
		"SRQ.Resize": w.srq.Resize(9), "AttachMcast": w.ud.AttachMcast(group, 0), "DetachMcast": w.ud.DetachMcast(group, 0),
		"Rereg": w.mr.Rereg(reset), "Rereg to": other.Rereg(reset), "AH": w.ah.Close(), "MW": w.mw.Close(),
	} {
		if !errors.Is(err, verbs.ErrClosed) || !strings.Contains(err.Error(), " on rxe0: ") {
			t.Errorf("%s after close: %v", name, err)
		}
	}
	if driver.AHData(w.ah) != nil {
		t.Error("a closed AH still has a number")
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseFails checks that an address handle that the kernel does not destroy stays usable.
func TestCloseFails(t *testing.T) {
	w := connected(t)
	w.k.Fail("AH_DESTROY", 0, syscall.EBUSY)
	if err := w.ah.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Fatal(err)
	}
	if _, err := w.ud.PostSend(w.datagram()); err != nil {
		t.Error(err)
	}
}

// TestClosedAH posts to a closed address handle.
func TestClosedAH(t *testing.T) {
	w := connected(t)
	if n, err := w.ud.PostSend(w.datagram()); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, ok := fakerxe.QPOf(w.kud()).TakeSend(); !ok {
		t.Fatal("nothing was sent")
	}
	w.k.Tamper = func(call string, _ *ioctl.Request) {
		if driver.AHData(w.ah) != nil {
			t.Error("the number of a destroyed AH can still be posted")
		}
	}
	if err := w.ah.Close(); err != nil {
		t.Fatal(err)
	}
	w.k.Tamper = nil
	n, err := w.ud.PostSend(w.datagram())
	if _, ok := fakerxe.QPOf(w.kud()).TakeSend(); ok || n != 0 || !errors.Is(err, verbs.ErrInvalidWR) || !strings.Contains(err.Error(), "needs an open AH") {
		t.Errorf("%d sent, %v, %v", n, ok, err)
	}
}

// TestMcast attaches a QP to two groups. It can be closed after it has left both.
func TestMcast(t *testing.T) {
	w := newRoCE(t)
	other := verbs.GID{0xff, 0x0e, 15: 2}
	for _, g := range []verbs.GID{group, other, group} { // the third changes nothing
		if err := w.ud.AttachMcast(g, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []verbs.GID{group, other} {
		if err := w.ud.Close(); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "DetachMcast") {
			t.Error(err)
		}
		if _, err := w.ud.PostRecv([]verbs.RecvWR{{}}); errors.Is(err, verbs.ErrClosed) {
			t.Errorf("a QP that could not be closed: %v", err)
		}
		if err := w.ud.DetachMcast(g, 0); err != nil {
			t.Error(err)
		}
		if err := w.ud.DetachMcast(g, 0); !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		}
	}
	if err := w.ud.Close(); err != nil {
		t.Error(err)
	}
}
