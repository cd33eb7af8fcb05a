package uverbs_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestFailedCompletion checks that a failed completion moves the QP to ERR and then flushes it, once.
// The flushed completions follow. A later post is flushed at once.
func TestFailedCompletion(t *testing.T) {
	w := newSpyWorld(t, false)
	if err := w.qp.Init(nil); err != nil {
		t.Fatal(err)
	}
	wr := []verbs.SendWR{{WRID: 5}}
	post := func() {
		if n, err := w.qp.PostSend(wr); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	post()
	w.cqs[0].push(bad(w.qp.QPN(), 1), bad(w.qp.QPN(), 2))
	begun := len(w.calls)
	if got := w.pollAll(t); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("polled %d", got)
	}
	if got := w.pollAll(t); !slices.Equal(got, []uint64{5}) {
		t.Errorf("polled %d, want the flushed send", got)
	}
	want := []string{"poll", "before modify", "after modify", "INIT to ERR", "flush", "poll"}
	if got := w.calls[begun:]; !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
	begun = len(w.calls)
	post()
	if got := w.pollAll(t); !slices.Equal(got, []uint64{5}) {
		t.Errorf("polled %d, want the flushed send", got)
	}
	want = []string{"send", "before modify", "after modify", "ERR to ERR", "flush", "poll"}
	if got := w.calls[begun:]; !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// TestFailureBeforeErr checks that a QP whose failure an event or a completion reports before the kernel has moved it to
// ERR is moved only after that: rxe answers the peer in between.
func TestFailureBeforeErr(t *testing.T) {
	for name, report := range map[string]func(w *spyWorld){
		"event": func(w *spyWorld) {
			w.file.Async(w.file.QueuePairs()[0].Cookie, uint32(verbs.EventQPAccessErr))
			if e, err := w.dev.AsyncEvent(t.Context()); err != nil || e.QP != w.qp {
				t.Error(e, err)
			}
		},
		"completion": func(w *spyWorld) {
			w.cqs[0].push(bad(w.qp.QPN(), 1))
			if got := w.pollAll(t); !slices.Equal(got, []uint64{1}) {
				t.Errorf("polled %d", got)
			}
		},
	} {
		w := newSpyWorld(t, false)
		if err := w.qp.Init(nil); err != nil {
			t.Fatal(err)
		}
		w.file.Tamper = func(call string, r *ioctl.Request) {
			if call != "QUERY_QP" {
				return
			}
			state := verbs.QPStateRTS
			if w.calls = append(w.calls, "query"); slices.Equal(w.calls[len(w.calls)-3:], []string{"query", "query", "query"}) {
				state = verbs.QPStateErr
			}
			ioctl.Answer(r, abi.UVERBS_ATTR_CORE_OUT, &abi.IbUverbsQueryQpResp{QpState: uint8(state)})
		}
		begun := len(w.calls)
		report(w)
		got := slices.DeleteFunc(w.calls[begun:], func(call string) bool { return call == "poll" })
		if want := []string{"query", "query", "query", "before modify", "after modify", "INIT to ERR", "flush"}; !slices.Equal(got, want) {
			t.Errorf("%s: calls %q, want %q", name, got, want)
		}
	}
}

// TestQueryMask checks that a query asks for the attributes that the provider names.
func TestQueryMask(t *testing.T) {
	w := newSpyWorld(t, false)
	w.queryMask = verbs.QPAttrState | verbs.QPAttrQKey
	var in abi.IbUverbsQueryQp
	w.file.Tamper = func(call string, r *ioctl.Request) {
		if call == "QUERY_QP" {
			ioctl.Argument(r, abi.UVERBS_ATTR_CORE_IN, &in)
		}
	}
	if _, err := w.qp.Query(); err != nil || in.AttrMask != uint32(w.queryMask) {
		t.Errorf("asked for %#x, want %#x: %v", in.AttrMask, uint32(w.queryMask), err)
	}
}

// TestSRDType checks that the kernel knows SRD as the driver's type.
func TestSRDType(t *testing.T) {
	w := newSpyWorld(t, false)
	var types []uint64
	w.file.Tamper = func(call string, r *ioctl.Request) {
		if v, ok := r.Value(abi.UVERBS_ATTR_CREATE_QP_TYPE); ok && call == "QP_CREATE" {
			types = append(types, v)
		}
	}
	qp := must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeSRD, SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4}}))
	defer closeAll(t, qp)
	if !slices.Equal(types, []uint64{uint64(verbs.QPTypeDriver)}) || qp.Type() != verbs.QPTypeSRD {
		t.Errorf("types %d, %v", types, qp.Type())
	}
}

// TestSurvivor checks that an error that the provider says the QP survives leaves the QP as it is. A
// later flush moves it to ERR.
func TestSurvivor(t *testing.T) {
	w := newSpyWorld(t, false)
	w.survives = true
	if err := w.qp.Init(nil); err != nil {
		t.Fatal(err)
	}
	var heard []error
	hook.OnError(w.qp, func(err error) { heard = append(heard, err) })
	w.cqs[0].push(bad(w.qp.QPN(), 1))
	begun := len(w.calls)
	if got := w.pollAll(t); !slices.Equal(got, []uint64{1}) {
		t.Errorf("polled %d", got)
	}
	if got := w.calls[begun:]; !slices.Equal(got, []string{"poll"}) || heard != nil {
		t.Errorf("calls %q, errors %v", got, heard)
	}
	w.cqs[0].push(verbs.WC{WRID: 2, QPN: w.qp.QPN(), Status: verbs.StatusWRFlushErr})
	w.pollAll(t)
	if got := w.calls[begun:]; !slices.Contains(got, "INIT to ERR") || !slices.Equal(heard, []error{verbs.StatusWRFlushErr}) {
		t.Errorf("calls %q, errors %v", got, heard)
	}
}

// TestCauseOnOtherCQ checks that if the first completion polled is a flush, the error reported is
// that of the work request that failed, which waits on another CQ. So it is for another QP whose
// flush is found there.
func TestCauseOnOtherCQ(t *testing.T) {
	w := newSpyWorld(t, false)
	newCQ := func() *uverbs.CQ { return must[*uverbs.CQ](t)(w.dev.CreateCQ(16, nil)) }
	shared, recvs := newCQ(), newCQ()
	newQP := func(send, recv *uverbs.CQ) *uverbs.QP {
		return must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: send, RecvCQ: recv, Cap: verbs.QPCap{MaxSendWR: 4}}))
	}
	first, second := newQP(shared, recvs), newQP(w.cq, shared)
	defer closeAll(t, first, second, shared, recvs)
	heard := make(map[*uverbs.QP][]error)
	for _, qp := range []*uverbs.QP{first, second} {
		hook.OnError(qp, func(err error) { heard[qp] = append(heard[qp], err) })
	}
	flushed := func(qp *uverbs.QP) verbs.WC { return verbs.WC{QPN: qp.QPN(), Status: verbs.StatusWRFlushErr} }
	w.cqs[0].push(bad(second.QPN(), 3))
	w.cqs[1].push(flushed(second), bad(first.QPN(), 2))
	w.cqs[2].push(flushed(first))
	wcs := make([]verbs.WC, 16)
	if n, err := recvs.Poll(wcs); n == 0 || err != nil || wcs[0].Status != verbs.StatusWRFlushErr {
		t.Fatal(n, err, wcs[0])
	}
	for i, qp := range []*uverbs.QP{first, second} {
		if got := heard[qp]; !slices.Equal(got, []error{verbs.StatusRetryExcErr}) {
			t.Errorf("queue pair %d reports %v", i, got)
		}
	}
	if got := w.pollAll(t); !slices.Contains(got, 3) {
		t.Errorf("polled %d later", got)
	}
}

// TestCauseIsOverflow checks that if a completion that is polled is a flush, and the event that a CQ
// has overflowed waits to be read, then the error reported is the overflow.
func TestCauseIsOverflow(t *testing.T) {
	w := newSpyWorld(t, false)
	var heard []error
	hook.OnError(w.qp, func(err error) { heard = append(heard, err) })
	w.cqs[0].push(verbs.WC{QPN: w.qp.QPN(), Status: verbs.StatusWRFlushErr})
	w.file.Async(w.file.CQs()[0].Cookie, uint32(verbs.EventCQErr))
	w.pollAll(t)
	if len(heard) != 1 || !errors.Is(heard[0], verbs.ErrCQOverflow) {
		t.Errorf("%v", heard)
	}
}
