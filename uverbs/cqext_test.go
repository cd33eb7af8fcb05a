package uverbs_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestPollExt: what stands beside a completion stays with it, also when the completion
// is set aside because a QP left, and one made in user space has nothing.
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
	if n, err := cq.Poll(make([]verbs.WC, 1)); n != 1 || err != nil { // takes what is beside it along
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

// TestExtUnsupported: siw's CQs have nothing to tell.
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
