//go:build vm

package rxe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
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
		onRxe(t, f.Name, func(t *testing.T, d *kit.RxeDevice) { f.run(t, d) })
	}
}

func (f *rxeFailure) run(t *testing.T, d *kit.RxeDevice) {
	a, b := d.End(t, f.Type(), kit.RxeSetup{Access: f.Mine, Change: f.MineAttr}), d.End(t, f.Type(), kit.RxeSetup{Access: f.His, AtPeer: f.HisQP, Change: f.HisAttr})
	a.Connect(b)
	b.Connect(a)
	for i := range 2 {
		b.PostRecv(uint64(1000+i), i*kit.RecvSize, kit.RecvSize)
	}
	binary.NativeEndian.PutUint64(b.MR.Bytes(), refusals.Before)
	wr := f.request(a, b)
	wr.Flags = verbs.SendSignaled
	if !d.Has(f.differs.needs) {
		if n, err := a.QP.PostSend([]verbs.SendWR{wr}); n != 0 || !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%d, %v", n, err)
		}
		return
	}
	a.Post(wr)
	first := outcome(a.Next(a.SendCQ))
	if got := binary.NativeEndian.Uint64(b.MR.Bytes()); f.Changes(got) {
		t.Errorf("%d in memory", got)
	}
	f.compare(t, first, a, b)
}

func (f *rxeFailure) compare(t *testing.T, first string, a, b *kit.RxeEnd) {
	t.Helper()
	wantA, wantB := f.want()
	sent, got := []string{first}, []string(nil)
	reaches(a, stateIn(wantA))
	reaches(b, stateIn(wantB))
	if a.QP.Type() != verbs.QPTypeRC && alive(wantA) && alive(wantB) {
		got = knock(a, b) // what went before has arrived by then, if ever
	}
	stateA, stateB := state(a).String(), state(b).String()
	events := eventsOf(a.Dev, a.QP, b.QP)
	if diff := cmp.Diff(wantA, story(a, sent, stateA, events[0])); diff != "" {
		t.Errorf("requester (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantB, story(b, got, stateB, events[1])); diff != "" {
		t.Errorf("responder (-want +got):\n%s", diff)
	}
}

func (f *rxeFailure) want() (requester, responder string) {
	requester, responder = f.Requester, f.Responder
	if kit.OnKernel("6.1") && f.differs.requester != "" {
		requester = f.differs.requester
	}
	if kit.OnKernel("6.1") && f.differs.responder != "" {
		responder = f.differs.responder
	}
	if f.differs.access && !kit.OnKernel("6.1") && !kit.OnKernel("6.12") {
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
func story(e *kit.RxeEnd, so []string, state string, events []string) string {
	e.T.Helper()
	sends, recvs := drain(e)
	so = append(append(so, sends...), recvs...)
	return strings.Join(so, ", ") + "; " + strings.Join(append([]string{state}, events...), ", ")
}

// knock sends a message that arrives, and returns everything that the peer received up to it.
func knock(e *kit.RxeEnd, peer *kit.RxeEnd) (got []string) {
	e.T.Helper()
	e.Post(e.Send(2, kit.SendFrom, 8))
	e.Sent("2 SEND success")
	for {
		wc := peer.Next(peer.RecvCQ)
		got = append(got, outcome(wc))
		if wc.Status == verbs.StatusSuccess {
			return got
		}
	}
}

// TestRxeRetries checks that a peer that has no receive, and one that is not there, are waited for as often as was
// said. The peer that was not ready still works.
func TestRxeRetries(t *testing.T) {
	short := verbs.QPAttr{State: verbs.QPStateRTS, SQPSN: 0x123456, AckTimeout: 4096 << 8, RetryCnt: 1, RNRRetry: 7}
	const all = verbs.QPAttrSQPSN | verbs.QPAttrAckTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic
	impatient := func(t *testing.T, d *kit.RxeDevice, retries verbs.QPAttr) (a, b *kit.RxeEnd) {
		a, b = d.End(t, verbs.QPTypeRC, kit.RxeSetup{}), d.End(t, verbs.QPTypeRC, kit.RxeSetup{})
		b.Connect(a)
		a.ToInit()
		a.ToRTR(b)
		a.Modify(retries, all)
		return a, b
	}
	fails := func(a *kit.RxeEnd, want string) {
		a.T.Helper()
		a.Post(a.Send(1, kit.SendFrom, 8), a.Send(2, kit.SendFrom, 8))
		first := outcome(a.Next(a.SendCQ))
		reaches(a, verbs.QPStateErr)
		if got := story(a, []string{first}, "ERR", nil); got != want {
			a.T.Errorf("%q, want %q", got, want)
		}
	}
	onRxe(t, "no receive", func(t *testing.T, d *kit.RxeDevice) {
		a, b := impatient(t, d, verbs.QPAttr{SQPSN: 0x123456, AckTimeout: 4096 << 14, RetryCnt: 7, RNRRetry: 1, State: verbs.QPStateRTS})
		fails(a, "1 receiver-not-ready retries exceeded, 2 work request flushed; ERR")
		if s := state(b); s != verbs.QPStateRTS {
			t.Errorf("the peer is in %v", s)
		}
	})
	onRxe(t, "a receive in time", func(t *testing.T, d *kit.RxeDevice) {
		a, b := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{}) // which wait for ever
		a.Post(a.Send(1, kit.SendFrom, 8))
		b.PostRecv(1000, 0, 8)
		a.Sent("1 SEND success")
		b.Got("1000 RECV success 8")
	})
	const gone = "1 transport retries exceeded, 2 work request flushed; ERR"
	onRxe(t, "peer in RESET", func(t *testing.T, d *kit.RxeDevice) {
		a, b := impatient(t, d, short)
		b.Modify(verbs.QPAttr{State: verbs.QPStateReset}, 0)
		fails(a, gone)
	})
	onRxe(t, "peer in ERR", func(t *testing.T, d *kit.RxeDevice) {
		a, b := impatient(t, d, short)
		b.Modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
		fails(a, gone)
	})
	onRxe(t, "peer closed", func(t *testing.T, d *kit.RxeDevice) {
		a := d.End(t, verbs.QPTypeRC, kit.RxeSetup{})
		b := kit.Must(d.PD.CreateQP(&uverbs.QPOptions{SendCQ: a.SendCQ, RecvCQ: a.RecvCQ, Cap: a.QP.Cap()}))(t)
		a.ToInit()
		a.ToRTR(&kit.RxeEnd{T: t, Dev: d, QP: b, MR: a.MR})
		a.Modify(short, all)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		fails(a, gone)
	})
}

// differs says where kernels disagree.
type differs struct {
	requester, responder string          // what Linux 6.1 makes of it, where that is something else
	access               bool            // since Linux 7 the responder has EventQPAccessErr
	needs                verbs.DeviceCap // without this the work request is refused
}

// rxeFailures is the table to which the devices of package rdmatest are held, too.
func rxeFailures() (all []rxeFailure) {
	for _, f := range refusals.Failures(refusals.Layout{Memory: kit.MemorySize, Source: kit.SendFrom, Recv: kit.RecvSize}) {
		all = append(all, rxeFailure{f, differences(&f)})
	}
	return all
}

func differences(f *refusals.Failure) (d differs) {
	switch {
	case f.Requester == refusals.FlushedSend && strings.HasSuffix(f.Name, "range"):
		d.requester = refusals.Protection
	case f.Requester == refusals.FlushedSend:
		d.requester = "1 local QP operation error; ERR"
	case f.Requester == refusals.Refused && f.Responder == refusals.Lost:
		d.access = true
	case strings.HasPrefix(f.Name, "RC SEND, peer's MTU"): // it looks at the length of WRITEs alone
		d.requester, d.responder = "1 SEND success; RTS", "1000 RECV success 300, 1001 work request flushed; RTS"
	case f.Name == "UD SEND, receive too short":
		d.responder = refusals.Broken
	}
	d.needs = map[verbs.Opcode]verbs.DeviceCap{verbs.OpAtomicWrite: verbs.DeviceCapAtomicWrite, verbs.OpFlush: verbs.DeviceCapFlushGlobal}[f.Op]
	return d
}

// request is the request, and the region that it names if that has to be closed.
func (f *rxeFailure) request(a, b *kit.RxeEnd) verbs.SendWR {
	wr := f.Request(a.To(verbs.SendWR{Opcode: f.Op}), a.MR.SGE(kit.SendFrom, f.Size))
	if f.Closed {
		gone := kit.Must(b.Dev.PD.AllocMR(kit.MemorySize, b.Dev.Access(), nil))(b.T)
		wr.RemoteAddr, wr.RKey = gone.Addr(), gone.RKey()
		if err := gone.Close(); err != nil {
			b.T.Fatal(err)
		}
	}
	return wr
}

// outcome is how a work request ended: "1 SEND success", "1 remote access error".
func outcome(wc verbs.WC) string {
	if wc.Status != verbs.StatusSuccess {
		return fmt.Sprintf("%d %v", wc.WRID, wc.Status)
	}
	return kit.Brief(wc)
}

func state(e *kit.RxeEnd) verbs.QPState {
	e.T.Helper()
	return kit.Must(e.QP.Query())(e.T).State
}

// drain moves a QP to ERR and returns the outcomes of all requests whose completions nobody has
// polled. It posts two marks behind them: the requests are complete when the marks
// are flushed and nothing comes after them.
func drain(e *kit.RxeEnd) (sends, recvs []string) {
	e.T.Helper()
	e.Modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
	e.Post(e.Send(kit.Mark, 0, 1))
	sends = upToMark(e, e.SendCQ)
	if e.QP.SRQ() == nil {
		if _, err := e.QP.PostRecv([]verbs.RecvWR{{WRID: kit.Mark}}); err != nil {
			e.T.Fatal(err)
		}
		recvs = upToMark(e, e.RecvCQ)
	}
	return sends, recvs
}

func upToMark(e *kit.RxeEnd, cq *uverbs.CQ) (all []string) {
	e.T.Helper()
	for {
		wc := e.Next(cq)
		if wc.WRID == kit.Mark {
			if wc.Status != verbs.StatusWRFlushErr {
				e.T.Errorf("posted after the end: %s", outcome(wc))
			}
			break
		}
		all = append(all, outcome(wc))
	}
	if n, err := cq.Poll(make([]verbs.WC, 1)); n > 0 || err != nil {
		e.T.Errorf("behind the mark: %d, %v", n, err)
	}
	return all
}

// eventsSoFar are the asynchronous events that came. Behind them is one that this
// causes, so that nobody has to wait for an event that may not come.
func eventsSoFar(d *kit.RxeDevice) (all []uverbs.AsyncEvent) {
	d.T.Helper()
	end := d.End(d.T, verbs.QPTypeUD, kit.RxeSetup{})
	end.Connect(end)
	end.Modify(verbs.QPAttr{State: verbs.QPStateSQD}, 0)
	for {
		ev := event(d)
		if ev.QP == end.QP {
			return all
		}
		all = append(all, ev)
	}
}

// eventsOf names those of some QPs.
func eventsOf(d *kit.RxeDevice, of ...*uverbs.QP) [][]string {
	d.T.Helper()
	all := make([][]string, len(of))
	for _, ev := range eventsSoFar(d) {
		for i, qp := range of {
			if ev.QP == qp {
				all[i] = append(all[i], ev.Type.String())
			}
		}
	}
	return all
}

// reaches waits for the kernel to put the QP into a state.
func reaches(e *kit.RxeEnd, want verbs.QPState) {
	e.T.Helper()
	var s verbs.QPState
	if !kit.Eventually(func() bool { s = state(e); return s == want }) {
		e.T.Errorf("the QP is in %v, want %v", s, want)
	}
}

// each runs f with a device of its own and checks that nothing is left.
func onRxe(t *testing.T, name string, f func(t *testing.T, d *kit.RxeDevice)) {
	t.Run(name, func(t *testing.T) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		f(t, kit.OpenRxe(t))
	})
}

// event waits for the next asynchronous event.
func event(d *kit.RxeDevice) uverbs.AsyncEvent {
	d.T.Helper()
	ctx, cancel := context.WithTimeout(d.T.Context(), kit.Patience)
	defer cancel()
	return kit.Must(d.AsyncEvent(ctx))(d.T)
}
