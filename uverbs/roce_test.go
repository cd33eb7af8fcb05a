package uverbs_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// roce is a world of rxe, with objects that only RoCE has.
type roce struct {
	*world
	other *uverbs.PD
	mw    *uverbs.MW
	ah    *uverbs.AH
	ud    *uverbs.QP
}

var (
	group   = verbs.GID{0xff, 0x0e, 15: 1}
	address = &verbs.AHAttr{DGID: fakeverbs.IPv4GID, SGIDIndex: 1, HopLimit: 64, Global: true, Port: 1}
)

func newRoCE(t testing.TB) *roce {
	t.Helper()
	w := &roce{world: worldOn(t, rxe0)}
	w.other = must[*uverbs.PD](t)(w.dev.AllocPD())
	w.mw = must[*uverbs.MW](t)(w.pd.AllocMW(verbs.MWType1))
	w.ah = must[*uverbs.AH](t)(w.pd.CreateAH(address))
	opts := w.qpOptions()
	opts.Type = verbs.QPTypeUD
	w.ud = must[*uverbs.QP](t)(w.pd.CreateQP(opts))
	t.Cleanup(func() { w.closeRoCE(t) })
	return w
}

func (w *roce) closeRoCE(t testing.TB) { closeAll(t, w.ud, w.ah, w.mw, w.mr, w.other) }

// connected returns a world whose QPs are in RTS.
func connected(t testing.TB) *roce {
	t.Helper()
	w := newRoCE(t)
	for _, qp := range []*uverbs.QP{w.qp, w.ud} {
		attr := &verbs.QPAttr{DestQPN: qp.QPN(), AH: *address, QKey: 1, Access: verbs.AccessRemoteWrite}
		if err := qp.Init(attr); err != nil {
			t.Fatal(err)
		}
		if err := qp.Connect(attr); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// kud is the kernel's side of ud.
func (w *roce) kud() *fakeverbs.QP { return w.k.QueuePairs()[1] }

var send = []verbs.SendWR{{WRID: 7, Opcode: verbs.OpSend, Flags: verbs.SendSignaled}}

// datagram returns a send for ud.
func (w *roce) datagram() []verbs.SendWR {
	return []verbs.SendWR{{WRID: 8, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: w.ah, RemoteQPN: 9, RemoteQKey: 10}}
}

// rxeBind is the part of a send that binds a window.
func rxeBind(s *fakerxe.Send) abi.RxeSendWrMw { return fakerxe.WR[abi.RxeSendWrMw](s) }

// TestRoCEWait waits for a completion of each kind. Arm requests a solicited event, which the second
// completion raises.
func TestRoCEWait(t *testing.T) {
	w := newRoCE(t)
	kcq := w.kcq()
	done := run(func() error { return failed(w.cq.Wait(context.Background(), make([]verbs.WC, 1))) })
	untilAwaited(t, kcq)
	fakerxe.CQOf(kcq).Complete(abi.IbUverbsWc{})
	if err := within(t, "wait", done); err != nil || kcq.Armed() {
		t.Error(err, kcq.Armed())
	}
	if err := w.cq.Arm(true); err != nil {
		t.Fatal(err)
	}
	fakerxe.CQOf(kcq).Complete(abi.IbUverbsWc{})
	if !kcq.Armed() {
		t.Error("a completion that was not solicited raised the event")
	}
	fakerxe.CQOf(kcq).CompleteSolicited(abi.IbUverbsWc{})
	if kcq.Armed() {
		t.Error("a solicited completion raised no event")
	}
	w.polled(t, 0, 1)
}

// TestArmAfterResize checks that a CQ that was armed before Resize still raises an event.
func TestArmAfterResize(t *testing.T) {
	w := newRoCE(t)
	done := run(func() error { return failed(w.cq.Wait(context.Background(), make([]verbs.WC, 1))) })
	untilAwaited(t, w.kcq())
	if err := w.cq.Resize(100); err != nil {
		t.Fatal(err)
	}
	fakerxe.CQOf(w.kcq()).Complete(abi.IbUverbsWc{})
	if err := within(t, "wait", done); err != nil {
		t.Error(err)
	}
}

// TestConnected reads back the attributes that Connect set.
func TestConnected(t *testing.T) {
	w := connected(t)
	want := &verbs.QPAttr{State: verbs.QPStateRTS, CurState: verbs.QPStateRTS, PathMTU: verbs.MTU1024, DestQPN: 17,
		Access: verbs.AccessRemoteWrite, AH: *address, MaxRDAtomic: 1, MaxDestRDAtomic: 1, RNRTimer: 640 * time.Microsecond, Port: 1, AckTimeout: 4096 << 14,
		RetryCnt: 7, RNRRetry: 7, Cap: verbs.QPCap{MaxSendWR: 7, MaxRecvWR: 7, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 32}}
	if diff := cmp.Diff(want, must[*verbs.QPAttr](t)(w.qp.Query())); diff != "" {
		t.Error(diff)
	}
	want = &verbs.QPAttr{State: verbs.QPStateRTS, CurState: verbs.QPStateRTS, PathMTU: verbs.MTU256, AH: verbs.AHAttr{Global: true},
		QKey: 1, Port: 1, RNRTimer: 655360 * time.Microsecond, Cap: want.Cap}
	if diff := cmp.Diff(want, must[*verbs.QPAttr](t)(w.ud.Query())); diff != "" {
		t.Error(diff)
	}
	if _, err := w.dev.QueryGID(1, 2); !errors.Is(err, syscall.ENODATA) {
		t.Errorf("an empty slot: %v", err)
	}
}

// TestBindMW checks that every binding that is accepted changes the window's key.
func TestBindMW(t *testing.T) {
	w := connected(t)
	kmw := w.k.MWs()[0]
	if w.mw.RKey() != kmw.RKey || w.mw.Type() != verbs.MWType1 || w.mw.PD() != w.pd {
		t.Errorf("key %#x, the kernel has %#x", w.mw.RKey(), kmw.RKey)
	}
	b := verbs.BindMW{MR: w.mr, Addr: w.mr.Addr(), Length: 8, Access: verbs.AccessRemoteRead}
	key := kmw.RKey
	for range 300 { // once round the low byte
		if err := w.mw.Bind(w.qp, 5, verbs.SendSignaled, b); err != nil {
			t.Fatal(err)
		}
		s, _ := fakerxe.QPOf(w.kqp()).TakeSend()
		wr := rxeBind(&s)
		next := key&^0xff | (key+1)&0xff
		if s.Wr.Opcode != uint32(verbs.OpBindMW) || wr.MwRkey != key || wr.Rkey != next || wr.MrLkey != w.mr.LKey() || w.mw.RKey() != next {
			t.Fatalf("%+v, then key %#x; want %#x to %#x", wr, w.mw.RKey(), key, next)
		}
		key = next
	}
	if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	if err := w.mw.Bind(w.qp, 5, 0, b); err == nil || w.mw.RKey() != key {
		t.Errorf("%v, key %#x, before %#x", err, w.mw.RKey(), key)
	}
	second := must[*uverbs.MW](t)(w.pd.AllocMW(verbs.MWType2))
	if err := second.Bind(w.qp, 5, 0, b); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("type 2: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// TestConcurrentRoCE does everything at once, for the race detector.
func TestConcurrentRoCE(t *testing.T) {
	w := connected(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var called calls
	spawn := func(name string, f func() error, may ...error) {
		count := called.counter()
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				err := f()
				count.Add(1)
				for _, m := range may {
					if errors.Is(err, m) {
						err = nil
					}
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	kqp, kud, access := w.kqp(), w.kud(), verbs.AccessLocalWrite
	bound := must[*uverbs.MR](t)(w.pd.AllocMR(8, verbs.AccessMWBind, nil))
	defer bound.Close()
	spawn("the kernel", func() error { kqp.Carry(0); kqp.Receive(1); kud.Carry(0); return nil })
	full := verbs.ErrQueueFull
	for range 2 {
		spawn("PostSend", func() error { return failed(w.qp.PostSend(send)) }, full)
		spawn("datagram", func() error { return failed(w.ud.PostSend(w.datagram())) }, full)
		spawn("PostRecv", func() error { return failed(w.qp.PostRecv([]verbs.RecvWR{{}})) }, full)
		spawn("Poll", func() error { return failed(w.cq.Poll(make([]verbs.WC, 3))) })
		spawn("Wait", func() error { return failed(w.cq.Wait(ctx, make([]verbs.WC, 1))) }, context.Canceled, verbs.ErrCQOverflow)
		spawn("Resize", func() error { return w.cq.Resize(100) }, syscall.EINVAL)
		spawn("SRQ.Resize", func() error { return w.srq.Resize(20) })
		spawn("SetLimit", func() error { return w.srq.SetLimit(0) })
		spawn("Rereg", func() error { return w.mr.Rereg(&uverbs.ReregOptions{PD: w.pd, Access: &access}) })
		spawn("AH", func() error { return closing(w.pd.CreateAH(address)) })
		spawn("MW", func() error { return closing(w.pd.AllocMW(verbs.MWType1)) })
		spawn("Mcast", func() error { return w.ud.AttachMcast(group, 0) })
		spawn("Bind", func() error { return w.mw.Bind(w.qp, 1, 0, verbs.BindMW{MR: bound, Length: 1}) }, full)
		spawn("Query", func() error { return failed(w.qp.Query()) })
	}
	called.untilEach(t, 20)
	cancel()
	close(stop)
	wg.Wait()
	if err := w.ud.DetachMcast(group, 0); err != nil {
		t.Error(err)
	}
}

// TestClosingRoCE closes objects while other goroutines use them.
func TestClosingRoCE(t *testing.T) {
	for range 10 {
		w := connected(t)
		var users sync.WaitGroup
		var called calls
		for _, f := range []func() error{
			func() error { return failed(w.ud.PostSend(w.datagram())) },
			func() error { return w.ud.DetachMcast(group, 0) },
			func() error { return w.cq.Resize(9) },
			func() error { return w.cq.Arm(false) },
			func() error { return w.srq.Resize(9) },
			func() error { return w.mr.Rereg(&uverbs.ReregOptions{PD: w.other}) },
			func() error { return closing(w.pd.CreateAH(address)) },
			func() error { return closing(w.other.AllocMW(verbs.MWType1)) },
		} {
			count := called.counter()
			users.Go(func() {
				for err := error(nil); !errors.Is(err, verbs.ErrClosed) && !errors.Is(err, verbs.ErrInvalidWR); err = f() {
					count.Add(1)
					runtime.Gosched()
				}
			})
		}
		called.untilEach(t, 2)
		closeAll(t, w.ah, w.ud, w.mw, w.mr, w.qp, w.srq, w.cq)
		for _, pd := range []*uverbs.PD{w.pd, w.other} {
			for err := verbs.ErrInUse; errors.Is(err, verbs.ErrInUse); err = pd.Close() {
				runtime.Gosched()
			}
		}
		if err := within(t, "a user", run(func() error { users.Wait(); return nil })); err != nil {
			t.Error(err)
		}
	}
}
