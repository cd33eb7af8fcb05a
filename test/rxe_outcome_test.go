//go:build vm

package test

import (
	"context"
	"fmt"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// outcome is how a work request ended: "1 SEND success", "1 remote access error".
func outcome(wc verbs.WC) string {
	if wc.Status != verbs.StatusSuccess {
		return fmt.Sprintf("%d %v", wc.WRID, wc.Status)
	}
	return brief(wc)
}

func (e *rxeEnd) state() verbs.QPState {
	e.t.Helper()
	return must(e.qp.Query())(e.t).State
}

// drain ends a QP's life and tells how all came out whose completion nobody has
// polled. Two marks are posted behind it: that they are flushed, and nothing
// comes after them, tells that this was all.
func (e *rxeEnd) drain() (sends, recvs []string) {
	e.t.Helper()
	e.modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
	e.post(e.send(mark, 0, 1))
	sends = e.upToMark(e.sendCQ)
	if e.qp.SRQ() == nil {
		if _, err := e.qp.PostRecv([]verbs.RecvWR{{WRID: mark}}); err != nil {
			e.t.Fatal(err)
		}
		recvs = e.upToMark(e.recvCQ)
	}
	return sends, recvs
}

func (e *rxeEnd) upToMark(cq *uverbs.CQ) (all []string) {
	e.t.Helper()
	for {
		wc := e.next(cq)
		if wc.WRID == mark {
			if wc.Status != verbs.StatusWRFlushErr {
				e.t.Errorf("posted after the end: %s", outcome(wc))
			}
			break
		}
		all = append(all, outcome(wc))
	}
	if n, err := cq.Poll(make([]verbs.WC, 1)); n > 0 || err != nil {
		e.t.Errorf("behind the mark: %d, %v", n, err)
	}
	return all
}

// eventsSoFar are the asynchronous events that came. Behind them is one that this
// causes, so that nobody has to wait for an event that may not come.
func (d *rxeDevice) eventsSoFar() (all []uverbs.AsyncEvent) {
	d.t.Helper()
	end := d.end(d.t, verbs.QPTypeUD, rxeSetup{})
	end.connect(end)
	end.modify(verbs.QPAttr{State: verbs.QPStateSQD}, 0)
	for {
		ev := d.event()
		if ev.QP == end.qp {
			return all
		}
		all = append(all, ev)
	}
}

// eventsOf names those of some QPs.
func (d *rxeDevice) eventsOf(of ...*uverbs.QP) [][]string {
	d.t.Helper()
	all := make([][]string, len(of))
	for _, ev := range d.eventsSoFar() {
		for i, qp := range of {
			if ev.QP == qp {
				all[i] = append(all[i], ev.Type.String())
			}
		}
	}
	return all
}

// reaches waits for the kernel to put the QP into a state.
func (e *rxeEnd) reaches(want verbs.QPState) {
	e.t.Helper()
	var s verbs.QPState
	if !eventually(func() bool { s = e.state(); return s == want }) {
		e.t.Errorf("the QP is in %v, want %v", s, want)
	}
}

// each runs f with a device of its own and checks that nothing is left.
func onRxe(t *testing.T, name string, f func(t *testing.T, d *rxeDevice)) {
	t.Run(name, func(t *testing.T) {
		rxeFabric(t)
		noLeak(t)
		f(t, openRxe(t))
	})
}

// event waits for the next asynchronous event.
func (d *rxeDevice) event() uverbs.AsyncEvent {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	return must(d.AsyncEvent(ctx))(d.t)
}
