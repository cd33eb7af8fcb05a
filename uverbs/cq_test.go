package uverbs_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestPollExt checks that a completion keeps its WCExt, also if it is set aside because a QP was
// cleaned up. A completion made in user space has the zero WCExt.
func TestPollExt(t *testing.T) {
	w := newSpyWorld(t, true)
	cq := must[*uverbs.CQ](t)(w.dev.CreateCQ(16, &uverbs.CQOptions{Ext: verbs.WCExtTimestamp | verbs.WCExtVLAN, Flags: verbs.CQIgnoreOverrun}))
	if got := w.file.CQs()[1].Flags; got != abi.IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION|abi.IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN {
		t.Errorf("flags %#x", got)
	}
	newQP := func() *uverbs.QP {
		return must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4}}))
	}
	first, second := newQP(), newQP()
	ring := w.cqs[1]
	ring.push(verbs.WC{WRID: 1}, verbs.WC{WRID: 2}, verbs.WC{WRID: 3})
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if n, err := cq.Poll(make([]verbs.WC, 1)); n != 1 || err != nil { // removes its WCExt, too
		t.Error(n, err)
	}
	ring.push(verbs.WC{WRID: 4})
	if err := errors.Join(second.Init(nil), second.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState)); err != nil {
		t.Error(err)
	}
	if _, err := second.PostSend([]verbs.SendWR{{WRID: 9}}); err != nil {
		t.Error(err)
	}
	wcs, ext := make([]verbs.WC, 8), make([]verbs.WCExt, 8)
	ext[3].VLAN = 99
	if n, err := cq.PollExt(wcs, ext); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	for i, want := range []uint64{2, 3, 4, 9} {
		e := verbs.WCExt{Timestamp: want, VLAN: 7}
		if want == 9 {
			e = verbs.WCExt{}
		}
		if wcs[i].WRID != want || ext[i] != e {
			t.Errorf("%d: %+v beside %+v", i, ext[i], wcs[i])
		}
	}
	if _, err := cq.PollExt(wcs, ext[:7]); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if _, err := w.cq.PollExt(wcs, ext); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	closeAll(t, second, cq)
	if _, err := cq.PollExt(wcs, ext); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// TestExtUnsupported checks that siw's CQs have no WCExt.
func TestExtUnsupported(t *testing.T) {
	k, dev := openSIW(t)
	if _, err := dev.CreateCQ(1, &uverbs.CQOptions{Ext: verbs.WCExtVLAN}); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	if alive := k.Alive(); len(alive) > 0 {
		t.Errorf("%q", alive)
	}
}

// TestQPCreateAttributes reach the kernel and the provider.
func TestQPCreateAttributes(t *testing.T) {
	w := newSpyWorld(t, false)
	qp := must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, SignalAll: true,
		Flags: verbs.QPBlockMulticastLoopback, SourceQPN: 77}))
	got := w.file.QueuePairs()[1]
	if want := uint64(abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL | abi.IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK); got.Flags != want || got.SourceQPN != 77 {
		t.Errorf("flags %#x, source QPN %d", got.Flags, got.SourceQPN)
	}
	closeAll(t, qp)
}

// complete writes completions with ids from first on.
func (w *roce) complete(t testing.TB, first, n uint64) {
	t.Helper()
	for id := first; id < first+n; id++ {
		if !fakerxe.CQOf(w.kcq()).Complete(abi.IbUverbsWc{WrId: id, QpNum: 99}) {
			t.Fatal("the CQ is full")
		}
	}
}

// polled checks that the next n completions are those from first on.
func (w *roce) polled(t testing.TB, first, n uint64) {
	t.Helper()
	wcs := make([]verbs.WC, n)
	if got, err := w.cq.Poll(wcs); uint64(got) != n || err != nil {
		t.Fatalf("%d of %d completions, %v", got, n, err)
	}
	for i := range wcs {
		if wcs[i].WRID != first+uint64(i) {
			t.Fatalf("completion %d, want %d", wcs[i].WRID, first+uint64(i))
		}
	}
}

// TestResizeCQ makes a CQ larger and smaller again, while its completions wrap around the end of
// the ring.
func TestResizeCQ(t *testing.T) {
	w := newRoCE(t)
	id := uint64(0)
	for _, entries := range []int{100, 7, 31, 3} {
		room := uint64(w.cq.Cap())
		w.complete(t, id, room)
		w.polled(t, id, room-2)
		w.complete(t, id+room, 1)
		live := regions.Live()
		if err := w.cq.Resize(entries); err != nil {
			t.Fatal(err)
		}
		if got := w.cq.Cap(); got < entries || got > 2*entries || uint32(got) != w.kcq().Entries {
			t.Errorf("room for %d, asked for %d, the kernel has %d", got, entries, w.kcq().Entries)
		}
		if n := regions.Live(); n != live {
			t.Errorf("%d regions, %d before", n, live)
		}
		w.polled(t, id+room-2, 3)
		w.complete(t, id+room+1, 1)
		w.polled(t, id+room+1, 1)
		id += room + 2
	}
}

// TestResizeRefused checks that a CQ does not shrink below the number of completions that it holds.
func TestResizeRefused(t *testing.T) {
	w := newRoCE(t)
	w.complete(t, 0, 5)
	err := w.cq.Resize(4)
	if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "4 is more than the device allows (DeviceAttr.MaxCQE), or less than the number of completions in the CQ") {
		t.Error(err)
	}
	w.polled(t, 0, 5)
}

// TestNoEntries checks that a CQ has at least one entry, as Linux's drivers and rdma-core have it.
func TestNoEntries(t *testing.T) {
	w := newRoCE(t)
	for _, entries := range []int{0, -1, math.MinInt} {
		want := fmt.Sprintf("a CQ has at least 1 entry, not %d", entries)
		cq, err := w.dev.CreateCQ(entries, nil)
		if cq != nil || !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("CreateCQ: %v, %v", cq, err)
		}
		if err := w.cq.Resize(entries); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("Resize: %v", err)
		}
	}
}

// TestResizeKeepsOld checks that completions of an earlier QP, which are off the ring during Resize,
// are polled first.
func TestResizeKeepsOld(t *testing.T) {
	w := newRoCE(t)
	w.complete(t, 0, 4)
	if err := w.qp.Close(); err != nil {
		t.Fatal(err)
	}
	w.qp = must[*uverbs.QP](t)(w.pd.CreateQP(w.qpOptions())) // takes the four off the ring
	w.complete(t, 4, 2)
	if err := w.cq.Resize(2); err != nil {
		t.Fatal(err)
	}
	w.polled(t, 0, 6)
}

// TestResizeFails fails before and after the kernel has resized the CQ. Before, nothing changes.
// After, only the queue is lost.
func TestResizeFails(t *testing.T) {
	w := newRoCE(t)
	alive, live := w.k.Alive(), regions.Live()
	w.complete(t, 0, 3)
	w.k.Fail("RESIZE_CQ", 0, syscall.ENOMEM)
	if err := w.cq.Resize(100); !errors.Is(err, syscall.ENOMEM) || w.cq.Cap() != 31 {
		t.Errorf("%v, room for %d", err, w.cq.Cap())
	}
	w.polled(t, 0, 3)
	w.k.Tamper = func(call string, r *ioctl.Request) { // offer less than the queue takes up
		var resp abi.RxeResizeCqResp
		ioctl.Argument(r, abi.UVERBS_ATTR_UHW_OUT, &resp)
		resp.Mi.Size = 1
		ioctl.Answer(r, abi.UVERBS_ATTR_UHW_OUT, &resp)
	}
	if err := w.cq.Resize(100); err == nil || regions.Live() != live {
		t.Errorf("%v, %d regions, %d before", err, regions.Live(), live)
	}
	w.k.Tamper = nil
	w.k.Fail("MMAP", 0, syscall.ENOMEM)
	if err := w.cq.Resize(100); !errors.Is(err, syscall.ENOMEM) {
		t.Error(err)
	}
	for range 2 {
		if n, err := w.cq.Poll(make([]verbs.WC, 1)); n != 0 || err == nil || !strings.Contains(err.Error(), "poll CQ 2 on rxe0: ") || !strings.Contains(err.Error(), "lost when it was resized") {
			t.Errorf("%d completions, %v", n, err)
		}
	}
	if !slices.Equal(w.k.Alive(), alive) || regions.Live() != live {
		t.Errorf("%q and %d regions, before %q and %d", w.k.Alive(), regions.Live(), alive, live)
	}
	closeAll(t, w.ud, w.qp)
	if err := w.cq.Close(); err != nil {
		t.Error(err)
	}
}

// TestResizeWhilePolled resizes a CQ while completions are written and polled. Each arrives once, in
// order.
func TestResizeWhilePolled(t *testing.T) {
	w := newRoCE(t)
	const total = 10000
	kcq := w.kcq()
	var others sync.WaitGroup
	taken, tick := make(chan uint64, 1), make(chan struct{}, 1)
	taken <- 0
	others.Go(func() {
		for id := uint64(0); id < total; { // never more than the smallest size holds
			for end := <-taken + 3; id < end && id < total; id++ {
				fakerxe.CQOf(kcq).Complete(abi.IbUverbsWc{WrId: id})
			}
		}
	})
	others.Go(func() {
		n := 3
		for range tick {
			if err := w.cq.Resize(n); err != nil {
				t.Error(err)
			}
			n = 3 + (n+17)%50
		}
	})
	next := uint64(0)
	err := within(t, "the poller", run(func() error {
		for wcs := make([]verbs.WC, 2); next < total; {
			n, err := w.cq.Poll(wcs)
			if err != nil {
				return err
			}
			for _, wc := range wcs[:n] {
				if wc.WRID != next {
					return fmt.Errorf("completion %d, want %d", wc.WRID, next)
				}
				next++
			}
			if n == 0 {
				runtime.Gosched()
				continue
			}
			select {
			case <-taken:
			default:
			}
			taken <- next
			select {
			case tick <- struct{}{}:
			default:
			}
		}
		return nil
	}))
	close(tick)
	if err != nil {
		t.Error(err)
	}
	others.Wait()
}
