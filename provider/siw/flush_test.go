package siw

import (
	"errors"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// flushed returns the WRIDs and checks that all were flushed.
func flushed(t *testing.T, wcs []verbs.WC) (ids []uint64) {
	t.Helper()
	for _, wc := range wcs {
		if wc.Status != verbs.StatusWRFlushErr || wc.QPN != 1 {
			t.Errorf("%+v", wc)
		}
		ids = append(ids, wc.WRID)
	}
	return ids
}

// TestFlush posts before and after the connection breaks. The kernel flushes the work
// requests that were posted before, and the provider those that were posted after, in that
// order, signaled or not.
func TestFlush(t *testing.T) {
	w := connected(t)
	send := func(id uint64, op verbs.Opcode) {
		t.Helper()
		wr := verbs.SendWR{WRID: id, Opcode: op}
		if op == verbs.OpRDMARead {
			wr.SGL = sgl[:1]
		}
		if n, err := w.qp.PostSend([]verbs.SendWR{wr}); n != 1 || err != nil {
			t.Fatal(id, n, err)
		}
	}
	recv := func(id uint64) {
		t.Helper()
		if n, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: id}}); n != 1 || err != nil {
			t.Fatal(id, n, err)
		}
	}
	send(1, verbs.OpSend)
	recv(2)
	w.kqp.Break()
	// The failure is not known yet: these are on queues that the kernel no longer reads.
	send(3, verbs.OpRDMARead)
	send(4, verbs.OpSend)
	recv(5)
	if ids := flushed(t, w.poll(t)); !cmp.Equal(ids, []uint64{1, 2}) {
		t.Errorf("the kernel's: %v", ids)
	}
	wcs := w.poll(t)
	if ids := flushed(t, wcs); !cmp.Equal(ids, []uint64{3, 4, 5}) {
		t.Errorf("ours: %v", ids)
	}
	for i, op := range []verbs.WCOpcode{verbs.WCRDMARead, verbs.WCSend, verbs.WCRecv} {
		if i < len(wcs) && wcs[i].Opcode != op {
			t.Errorf("%v, want %v", wcs[i].Opcode, op)
		}
	}
	send(6, verbs.OpRDMAWrite)
	recv(7)
	if ids := flushed(t, w.poll(t)); !cmp.Equal(ids, []uint64{6, 7}) {
		t.Errorf("after the failure: %v", ids)
	}
}

// TestFlushOrder polls one at a time: the kernel's completions come before ours.
func TestFlushOrder(t *testing.T) {
	w := connected(t)
	post := func(id uint64) {
		if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: id}}); err != nil {
			t.Fatal(err)
		}
	}
	for id := range uint64(3) {
		post(id)
	}
	w.kqp.Break()
	post(3)
	for want := range uint64(4) {
		wcs := make([]verbs.WC, 1)
		if n := providertest.Must[int](t)(w.cq.Poll(wcs)); n != 1 || wcs[0].WRID != want {
			t.Errorf("%d completions, %d, want %d", n, wcs[0].WRID, want)
		}
	}
}

// TestFlushBounded posts to a failed QP while nobody polls.
func TestFlushBounded(t *testing.T) {
	w := connected(t)
	if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	n, err := w.qp.PostRecv(make([]verbs.RecvWR, 1000))
	if n != w.cq.Cap() || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("%d receives, %v", n, err)
	}
	if n, err := w.qp.PostSend(make([]verbs.SendWR, 1)); n != 0 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("%d sends, %v", n, err)
	}
	if got := len(flushed(t, w.poll(t))); got != n {
		t.Errorf("%d completions", got)
	}
	if n, err := w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpFetchAdd}}); n != 0 || !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("a bad one: %d, %v", n, err)
	}
}

// refuseDoorbells refuses as many doorbells in a row as the provider tries.
func refuseDoorbells(w *world, errno syscall.Errno) {
	for range 8 {
		w.k.Fail("POST_SEND", 0, errno)
	}
}

// TestDoorbellBusy has the kernel refuse one doorbell because the QP is locked: the post
// succeeds nevertheless.
func TestDoorbellBusy(t *testing.T) {
	w := connected(t)
	w.k.Fail("POST_SEND", 0, syscall.ENOTCONN)
	if n, err := w.qp.PostSend(make([]verbs.SendWR, 1)); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if s := w.kqp.State(); s != abi.IB_QPS_RTS {
		t.Errorf("the QP is in state %v", verbs.QPState(s))
	}
}

// TestDoorbellFails has the kernel refuse the doorbell of a QP that was connected: the work
// requests on the queue and those of the post are flushed.
func TestDoorbellFails(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOTCONN, syscall.EINVAL, syscall.EIO} {
		w := connected(t)
		refuseDoorbells(w, errno)
		wrs := make([]verbs.SendWR, depth+2)
		for i := range wrs {
			wrs[i].WRID = uint64(i)
		}
		if n, err := w.qp.PostSend(wrs); n != len(wrs) || err != nil {
			t.Errorf("%v: %d, %v", errno, n, err)
		}
		if ids := flushed(t, w.poll(t)); len(ids) != len(wrs) {
			t.Errorf("%v: %v", errno, ids)
		}
	}
}

// TestFlushRace posts from many goroutines while the QP fails: each posted work request
// completes exactly once, and no post returns the provider's own error.
func TestFlushRace(t *testing.T) {
	for i := range 100 { // each round closes the objects that it opened
		t.Run(strconv.Itoa(i), flushRace)
	}
}

func flushRace(t *testing.T) {
	w := connected(t)
	posted, wg := make([]int, 4), sync.WaitGroup{}
	refuseDoorbells(w, syscall.ENOTCONN)
	for g := range posted {
		wg.Go(func() {
			for range 3 {
				n, err := w.qp.PostSend(make([]verbs.SendWR, 1))
				if err != nil && !errors.Is(err, verbs.ErrQueueFull) {
					t.Error(err)
				}
				posted[g] += n
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range posted {
		sum += n
	}
	if got := len(flushed(t, w.poll(t))); got != sum {
		t.Fatalf("%d posted, %d completed", sum, got)
	}
}

// TestStaleCompletions leaves a failed QP's completions on the CQ and makes a QP that gets
// its number: they must not count for the new one.
func TestStaleCompletions(t *testing.T) {
	w := connected(t)
	for id := range uint64(2) {
		if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: id}}); err != nil {
			t.Fatal(err)
		}
	}
	w.kqp.Break()
	if err := w.qp.Close(); err != nil {
		t.Fatal(err)
	}
	w.qp = providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}}))
	if w.qp.QPN() != 1 {
		t.Fatalf("QP number %d", w.qp.QPN())
	}
	kqp := w.k.QueuePairs()[0]
	kqp.Connect(16, 16)
	fakesiw.CQOf(w.kcq).Complete(abi.SiwCqe{Id: 2, Opcode: abi.SIW_OP_RECEIVE, QpId: 99})
	for want := range uint64(3) {
		wcs := make([]verbs.WC, 1)
		if n := providertest.Must[int](t)(w.cq.Poll(wcs)); n != 1 || wcs[0].WRID != want {
			t.Errorf("%d completions, %d, want %d", n, wcs[0].WRID, want)
		}
	}
	if s := kqp.State(); s != abi.IB_QPS_RTS {
		t.Errorf("the new QP is in state %v", verbs.QPState(s))
	}
	// A completion of the new QP still counts.
	fakesiw.CQOf(w.kcq).Complete(abi.SiwCqe{Status: abi.SIW_WC_LOC_LEN_ERR, QpId: 1})
	w.poll(t)
	if s := kqp.State(); s != abi.IB_QPS_ERR {
		t.Errorf("the failed QP is in state %v", verbs.QPState(s))
	}
}

// TestDrainedFailure closes a QP while another QP's failed completions are on the CQ.
func TestDrainedFailure(t *testing.T) {
	w := connected(t)
	other := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}}))
	if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 1}}); err != nil {
		t.Fatal(err)
	}
	w.kqp.Break()
	if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 2}}); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if ids := flushed(t, w.poll(t)); !cmp.Equal(ids, []uint64{1, 2}) {
		t.Error(ids)
	}
}

// When the QP is moved to ERR, the kernel flushes the entries that it has. Flush takes back
// only the rest.
func TestFlushAfterKernel(t *testing.T) {
	region := providertest.Must[*mmap.Region](t)(mmap.Wrap(make([]byte, 4*sqeSize)))
	defer region.Close()
	q := &qp{connected: true, maxSGE: 1, flags: abi.SIW_WQE_VALID, doorbell: func() error { return nil },
		sq: providertest.Must[*mmap.FlagProducer[abi.SiwSqe]](t)(mmap.NewFlagProducer[abi.SiwSqe](region, 4, ownerWord))}
	if n, err := q.PostSend([]verbs.SendWR{{WRID: 1, Opcode: verbs.OpSend}, {WRID: 2, Opcode: verbs.OpSend}}); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	kernel := providertest.Must[*mmap.FlagConsumer[abi.SiwSqe]](t)(mmap.NewFlagConsumer[abi.SiwSqe](region, 4, ownerWord))
	e := kernel.At(0)
	if kernel.Word(e) == 0 || e.Id != 1 {
		t.Error("the kernel finds nothing to flush")
	}
	kernel.Return(e)
	if f := q.Flush(); len(f.Send) != 1 || f.Send[0].WRID != 2 {
		t.Errorf("taken back %+v", f.Send)
	}
}
