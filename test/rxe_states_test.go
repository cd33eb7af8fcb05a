//go:build vm

package test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeQPStates takes QPs through all states and into a second life, which is as
// good as the first. The kernel agrees about where they are.
func TestRxeQPStates(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		d := openRxe(t)
		a, b := d.end(t, typ, rxeSetup{}), d.end(t, typ, rxeSetup{})
		is := func(e *rxeEnd, want verbs.QPState) {
			t.Helper()
			if s := e.state(); s != want {
				t.Errorf("the QP is in %v, want %v", s, want)
			}
		}
		for life := range 3 {
			is(a, verbs.QPStateReset)
			a.toInit()
			is(a, verbs.QPStateInit)
			a.toInit() // with other attributes, for all that the kernel cares
			a.postRecv(0, 0, 100)
			a.toRTR(b)
			is(a, verbs.QPStateRTR)
			a.toRTS()
			is(a, verbs.QPStateRTS)
			b.connect(a)
			a.swap(b, 0)
			a.toSQD()
			is(a, verbs.QPStateSQD)
			a.waits(b)
			a.swap(b, 1)
			a.modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
			is(a, verbs.QPStateErr)
			a.modify(verbs.QPAttr{State: verbs.QPStateErr}, 0) // once more does no harm
			if sends, recvs := a.drain(); len(sends)+len(recvs) > 0 {
				t.Errorf("life %d left %v, %v", life, sends, recvs)
			}
			for _, e := range []*rxeEnd{a, b} {
				e.modify(verbs.QPAttr{State: verbs.QPStateReset}, 0)
			}
		}
	})
}

// swap has a message go each way. The receive of the first is there already.
func (e *rxeEnd) swap(peer *rxeEnd, id uint64) {
	e.t.Helper()
	if id > 0 {
		e.postRecv(id, 0, 100)
	}
	peer.postRecv(1000+id, 0, 100)
	e.post(e.send(id, sendFrom, 10))
	peer.post(peer.send(id, sendFrom, 10))
	for _, end := range []*rxeEnd{e, peer} {
		if wc := end.next(end.sendCQ); wc.WRID != id || wc.Status != verbs.StatusSuccess {
			e.t.Errorf("sent %+v", wc)
		}
		if wc := end.next(end.recvCQ); wc.WRID%1000 != id || wc.Status != verbs.StatusSuccess {
			e.t.Errorf("received %+v", wc)
		}
	}
}

// waits posts sends in SQD, which stay where they are, while the QP goes on
// receiving, until it is back in RTS.
func (e *rxeEnd) waits(peer *rxeEnd) {
	e.t.Helper()
	for id := range uint64(3) {
		peer.postRecv(1010+id, 0, 100)
		e.post(e.send(10+id, sendFrom, 10))
	}
	e.postRecv(10, 0, 100)
	peer.post(peer.send(10, sendFrom, 10)) // by when it arrives, the sends would have
	if wc := e.next(e.recvCQ); wc.WRID != 10 || wc.Status != verbs.StatusSuccess {
		e.t.Errorf("received in SQD: %+v", wc)
	}
	if wc := peer.next(peer.sendCQ); wc.WRID != 10 || wc.Status != verbs.StatusSuccess {
		e.t.Errorf("sent to who is in SQD: %+v", wc)
	}
	for name, cq := range map[string]*uverbs.CQ{"sent": e.sendCQ, "arrived": peer.recvCQ} {
		if n, err := cq.Poll(make([]verbs.WC, 1)); n > 0 || err != nil {
			e.t.Errorf("%s from SQD: %d, %v", name, n, err)
		}
	}
	e.modify(verbs.QPAttr{State: verbs.QPStateRTS}, 0)
	for id := range uint64(3) {
		if wc := e.next(e.sendCQ); wc.WRID != 10+id || wc.Status != verbs.StatusSuccess {
			e.t.Errorf("sent %+v", wc)
		}
		if wc := peer.next(peer.recvCQ); wc.WRID != 1010+id || wc.Status != verbs.StatusSuccess {
			e.t.Errorf("received %+v", wc)
		}
	}
}

// TestRxeQPTransitions tries every way that a QP can't go, from each state, with
// too few and with too many attributes. The error says why, and the QP stays in its state.
func TestRxeQPTransitions(t *testing.T) {
	states := []verbs.QPState{verbs.QPStateReset, verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS, verbs.QPStateSQD, verbs.QPStateSQE, verbs.QPStateErr}
	next := map[verbs.QPState]string{verbs.QPStateReset: "INIT", verbs.QPStateInit: "RTR", verbs.QPStateRTR: "RTS", verbs.QPStateRTS: "SQD",
		verbs.QPStateSQD: "RTS"}
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		e := openRxe(t).end(t, typ, rxeSetup{})
		refuses := func(attr verbs.QPAttr, mask verbs.QPAttrMask, why string) {
			t.Helper()
			before := e.state()
			err := e.qp.Modify(&attr, mask|verbs.QPAttrState)
			if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), why) {
				t.Errorf("%v to %v: %v; want %q", before, attr.State, err, why)
			}
			if after := e.state(); after != before {
				t.Errorf("%v to %v: now in %v", before, attr.State, after)
			}
		}
		// all that can't come after a state, which is one of these
		tries := func(can ...verbs.QPState) {
			t.Helper()
			from := e.state()
			for _, to := range states {
				if !slices.Contains(can, to) {
					why := fmt.Sprintf("no %v QP goes from %v to %v", typ, from, to)
					if next[from] != "" {
						why += fmt.Sprintf("; from %v the next is %s", from, next[from])
					}
					refuses(verbs.QPAttr{State: to}, 0, why)
				}
			}
		}
		const reset, erring = verbs.QPStateReset, verbs.QPStateErr
		tries(reset, verbs.QPStateInit)
		refuses(verbs.QPAttr{State: verbs.QPStateInit}, 0, "RESET to INIT of a "+typ.String()+" QP also needs ")
		e.toInit()
		tries(reset, erring, verbs.QPStateInit, verbs.QPStateRTR)
		if typ != verbs.QPTypeUD {
			refuses(verbs.QPAttr{State: verbs.QPStateRTR}, 0, "INIT to RTR of a "+typ.String()+" QP also needs ")
		}
		refuses(verbs.QPAttr{State: verbs.QPStateRTR}, allOf(e)|verbs.QPAttrTimeout, "can't take Timeout")
		e.toRTR(e)
		tries(reset, erring, verbs.QPStateRTS)
		refuses(verbs.QPAttr{State: verbs.QPStateRTS}, 0, "RTR to RTS of a "+typ.String()+" QP also needs ")
		e.toRTS()
		tries(reset, erring, verbs.QPStateRTS, verbs.QPStateSQD)
		refuses(verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrPort, "can't take Port")
		e.toSQD()
		tries(reset, erring, verbs.QPStateRTS, verbs.QPStateSQD)
		e.modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
		tries(reset, erring)
		e.modify(verbs.QPAttr{State: verbs.QPStateReset}, 0)
	})
}

// allOf are the attributes that the move of toRTR has.
func allOf(e *rxeEnd) verbs.QPAttrMask {
	all := verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN
	return map[verbs.QPType]verbs.QPAttrMask{
		verbs.QPTypeRC: all | verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrMinRNRTimer, verbs.QPTypeUC: all}[e.qp.Type()]
}

// TestRxeSQD: a QP is drained when the sends that it had begun are done; those
// behind them, posted before or after, wait. That the event comes whether or not
// it is asked for is how all kernels have it.
func TestRxeSQD(t *testing.T) {
	for _, ask := range []bool{false, true} {
		onRxe(t, fmt.Sprint("event asked for: ", ask), func(t *testing.T, d *rxeDevice) {
			a, b := d.pair(t, verbs.QPTypeRC, rxeSetup{})
			for round := range uint64(20) { // around the ring
				a.post(a.send(10*round+1, sendFrom, 20000)) // waits for a receive
				a.post(a.send(10*round+2, sendFrom, 20000))
				a.modify(verbs.QPAttr{State: verbs.QPStateSQD, EnSQDAsyncNotify: ask}, verbs.QPAttrEnSQDAsync)
				a.post(a.send(10*round+3, sendFrom, 8))
				for i := range uint64(3) {
					b.postRecv(10*round+i, 0, 20000)
				}
				a.drained()
				if attr := must(a.qp.Query())(t); attr.State != verbs.QPStateSQD || attr.SQDraining {
					t.Fatalf("round %d: %v, draining %v", round, attr.State, attr.SQDraining)
				}
				a.modify(verbs.QPAttr{State: verbs.QPStateRTS}, 0)
				for i := range uint64(3) {
					if got, want := outcome(a.next(a.sendCQ)), fmt.Sprintf("%d SEND success", 10*round+i+1); got != want {
						t.Fatalf("%q, want %q", got, want)
					}
					if wc := b.next(b.recvCQ); wc.WRID != 10*round+i || wc.Status != verbs.StatusSuccess {
						t.Fatalf("round %d: received %+v", round, wc)
					}
				}
			}
		})
	}
	onRxe(t, "nothing to drain", func(t *testing.T, d *rxeDevice) {
		a, b := d.pair(t, verbs.QPTypeRC, rxeSetup{})
		for id := range uint64(a.qp.Cap().MaxSendWR) + 3 { // around the ring
			b.postRecv(id, 0, 8)
			a.post(a.send(id, sendFrom, 8))
			a.sent(fmt.Sprintf("%d SEND success", id))
			b.got(fmt.Sprintf("%d RECV success 8", id))
			a.toSQD()
			a.modify(verbs.QPAttr{State: verbs.QPStateRTS}, 0)
		}
	})
	onRxe(t, "draining", func(t *testing.T, d *rxeDevice) {
		// The peer's refusal of a send that it has no receive for ends the draining, at
		// any time: before the look at it, before the move to RTS, or between the move's
		// refusal and the look at the reason.
		var a *rxeEnd
		for tries, seen := 0, false; !seen; tries++ {
			a, _ = d.pair(t, verbs.QPTypeRC, rxeSetup{})
			a.post(a.send(1, sendFrom, 8)) // nobody receives it
			until(t, "begun", func() bool { return must(a.qp.Query())(t).SQPSN != 0x123456 })
			a.modify(verbs.QPAttr{State: verbs.QPStateSQD}, 0)
			attr := must(a.qp.Query())(t)
			if seen = attr.SQDraining; attr.State != verbs.QPStateSQD || tries == 50 {
				t.Fatalf("%v, draining %v", attr.State, attr.SQDraining)
			}
		}
		err := a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState)
		if err == nil {
			if attr := must(a.qp.Query())(t); attr.State != verbs.QPStateRTS {
				t.Error(attr.State)
			}
		} else if !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		} else if !strings.Contains(fmt.Sprint(err), "the send queue is still draining: wait for EventSQDrained") && must(a.qp.Query())(t).SQDraining {
			t.Error(err)
		}
		a.post(a.send(2, sendFrom, 8))
		if sends, _ := a.drain(); cmp.Diff(sends, []string{"1 work request flushed", "2 work request flushed"}) != "" {
			t.Errorf("%q", sends)
		}
	})
}

// joinAll waits for n goroutines and fails with the first error.
func joinAll(t *testing.T, done <-chan error, n int) {
	t.Helper()
	for range n {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// TestRxeFlushAll: requests on a failed QP come back, each once, signalled or not,
// whether it was posted before, by several goroutines meanwhile, or after.
func TestRxeFlushAll(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		a, _ := openRxe(t).pair(t, typ, rxeSetup{cap: verbs.QPCap{MaxSendWR: 63, MaxRecvWR: 63}})
		a.toSQD()
		unsignaled := func(id uint64) verbs.SendWR {
			wr := a.send(id, sendFrom, 8)
			wr.Flags = 0
			return wr
		}
		for id := uint64(100); id < 120; id++ {
			a.post(unsignaled(id))
			a.postRecv(id, 0, 8)
		}
		done := make(chan error, 2)
		go func() {
			for id := uint64(120); id < 150; id++ {
				if _, err := a.qp.PostSend([]verbs.SendWR{unsignaled(id)}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		go func() {
			for id := uint64(120); id < 150; id++ {
				if _, err := a.qp.PostRecv([]verbs.RecvWR{{WRID: id}}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		running := 2
		if onKernel("6.1") && typ != verbs.QPTypeRC {
			// Its modify flushes outside the lock that a doorbell's flush takes:
			// the two may report one request twice and skip its neighbour.
			joinAll(t, done, running)
			running = 0
		}
		a.modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
		joinAll(t, done, running)
		var want []string
		for id := 100; id < 150; id++ {
			want = append(want, fmt.Sprintf("%d work request flushed", id))
		}
		sends, recvs := a.drain()
		if diff := cmp.Diff(want, sends); diff != "" {
			t.Errorf("sends (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, recvs); diff != "" {
			t.Errorf("receives (-want +got):\n%s", diff)
		}
	})
}
