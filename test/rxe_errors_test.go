//go:build vm

package test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/refusals"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// rxeFailure is a row of the table, and where kernels disagree about it.
type rxeFailure struct {
	refusals.Failure
	differs differs
}

// TestRxeErrors pins what each kind of failure looks like.
//
// Only Linux 6.1 reports an error at the requester's own end. Since then
// the kernel puts the QP into the error state before it completes the request, so
// that it is flushed like the others. An error that a responder finds in a request
// ends both RC QPs, while UC and UD drop the request; an error in its own
// receive ends the QP of all three.
func TestRxeErrors(t *testing.T) {
	for _, f := range rxeFailures() {
		onRxe(t, f.Name, func(t *testing.T, d *rxeDevice) { f.run(t, d) })
	}
}

func (f *rxeFailure) run(t *testing.T, d *rxeDevice) {
	a, b := d.end(t, f.Type(), rxeSetup{access: f.Mine}), d.end(t, f.Type(), rxeSetup{access: f.His, peer: f.HisQP})
	a.connect(b)
	b.connect(a)
	for i := range 2 {
		b.postRecv(uint64(1000+i), i*recvSize, recvSize)
	}
	binary.NativeEndian.PutUint64(b.mr.Bytes(), refusals.Before)
	wr := f.request(a, b)
	wr.Flags = verbs.SendSignaled
	if !d.has(f.differs.needs) {
		if n, err := a.qp.PostSend([]verbs.SendWR{wr}); n != 0 || !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%d, %v", n, err)
		}
		return
	}
	a.post(wr)
	first := outcome(a.next(a.sendCQ))
	if got := binary.NativeEndian.Uint64(b.mr.Bytes()); f.Changes(got) {
		t.Errorf("%d in memory", got)
	}
	f.compare(t, first, a, b)
}

func (f *rxeFailure) compare(t *testing.T, first string, a, b *rxeEnd) {
	t.Helper()
	wantA, wantB := f.want()
	sent, got := []string{first}, []string(nil)
	a.reaches(stateIn(wantA))
	b.reaches(stateIn(wantB))
	if a.qp.Type() != verbs.QPTypeRC && alive(wantA) && alive(wantB) {
		got = a.knock(b) // what went before has arrived by then, if ever
	}
	stateA, stateB := a.state().String(), b.state().String()
	events := a.dev.eventsOf(a.qp, b.qp)
	if diff := cmp.Diff(wantA, a.story(sent, stateA, events[0])); diff != "" {
		t.Errorf("requester (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantB, b.story(got, stateB, events[1])); diff != "" {
		t.Errorf("responder (-want +got):\n%s", diff)
	}
}

func (f *rxeFailure) want() (requester, responder string) {
	requester, responder = f.Requester, f.Responder
	if onKernel("6.1") && f.differs.requester != "" {
		requester = f.differs.requester
	}
	if onKernel("6.1") && f.differs.responder != "" {
		responder = f.differs.responder
	}
	if f.differs.access && !onKernel("6.1") && !onKernel("6.12") {
		responder += ", QP access error"
	}
	return requester, responder
}

func alive(want string) bool { return strings.Contains(want, "; RTS") }

func stateIn(want string) verbs.QPState {
	if alive(want) {
		return verbs.QPStateRTS
	}
	return verbs.QPStateErr
}

// story destroys an end and returns the outcome of all its requests.
func (e *rxeEnd) story(so []string, state string, events []string) string {
	e.t.Helper()
	sends, recvs := e.drain()
	so = append(append(so, sends...), recvs...)
	return strings.Join(so, ", ") + "; " + strings.Join(append([]string{state}, events...), ", ")
}

// knock sends a message that arrives, and returns everything that the peer received up to it.
func (e *rxeEnd) knock(peer *rxeEnd) (got []string) {
	e.t.Helper()
	e.post(e.send(2, sendFrom, 8))
	e.sent("2 SEND success")
	for {
		wc := peer.next(peer.recvCQ)
		got = append(got, outcome(wc))
		if wc.Status == verbs.StatusSuccess {
			return got
		}
	}
}

// TestRxeRetries: a peer that has no receive, and one that is not there, are
// waited for as often as was said. The peer that was not ready comes to no harm.
func TestRxeRetries(t *testing.T) {
	short := verbs.QPAttr{State: verbs.QPStateRTS, SQPSN: 0x123456, Timeout: 8, RetryCnt: 1, RNRRetry: 7}
	const all = verbs.QPAttrSQPSN | verbs.QPAttrTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic
	impatient := func(t *testing.T, d *rxeDevice, retries verbs.QPAttr) (a, b *rxeEnd) {
		a, b = d.end(t, verbs.QPTypeRC, rxeSetup{}), d.end(t, verbs.QPTypeRC, rxeSetup{})
		b.connect(a)
		a.toInit()
		a.toRTR(b)
		a.modify(retries, all)
		return a, b
	}
	fails := func(a *rxeEnd, want string) {
		a.t.Helper()
		a.post(a.send(1, sendFrom, 8), a.send(2, sendFrom, 8))
		first := outcome(a.next(a.sendCQ))
		a.reaches(verbs.QPStateErr)
		if got := a.story([]string{first}, "ERR", nil); got != want {
			a.t.Errorf("%q, want %q", got, want)
		}
	}
	onRxe(t, "no receive", func(t *testing.T, d *rxeDevice) {
		a, b := impatient(t, d, verbs.QPAttr{SQPSN: 0x123456, Timeout: 14, RetryCnt: 7, RNRRetry: 1, State: verbs.QPStateRTS})
		fails(a, "1 receiver-not-ready retries exceeded, 2 work request flushed; ERR")
		if s := b.state(); s != verbs.QPStateRTS {
			t.Errorf("the peer is in %v", s)
		}
	})
	onRxe(t, "a receive in time", func(t *testing.T, d *rxeDevice) {
		a, b := d.pair(t, verbs.QPTypeRC, rxeSetup{}) // which wait for ever
		a.post(a.send(1, sendFrom, 8))
		b.postRecv(1000, 0, 8)
		a.sent("1 SEND success")
		b.got("1000 RECV success 8")
	})
	const gone = "1 transport retries exceeded, 2 work request flushed; ERR"
	onRxe(t, "peer in RESET", func(t *testing.T, d *rxeDevice) {
		a, b := impatient(t, d, short)
		b.modify(verbs.QPAttr{State: verbs.QPStateReset}, 0)
		fails(a, gone)
	})
	onRxe(t, "peer in ERR", func(t *testing.T, d *rxeDevice) {
		a, b := impatient(t, d, short)
		b.modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
		fails(a, gone)
	})
	onRxe(t, "peer closed", func(t *testing.T, d *rxeDevice) {
		a := d.end(t, verbs.QPTypeRC, rxeSetup{})
		b := must(d.pd.CreateQP(&uverbs.QPOptions{SendCQ: a.sendCQ, RecvCQ: a.recvCQ, Cap: a.qp.Cap()}))(t)
		a.toInit()
		a.toRTR(&rxeEnd{t: t, dev: d, qp: b, mr: a.mr})
		a.modify(short, all)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		fails(a, gone)
	})
}
