//go:build vm

package test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/refusals"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestFailureStatus holds siw to the table that package rdmatest's devices are held to.
func TestFailureStatus(t *testing.T) {
	fabric(t)
	for _, f := range refusals.Endings(refusals.Layout{Memory: memorySize, Source: sendFrom, Recv: recvSize}) {
		t.Run(f.Name, func(t *testing.T) {
			noLeak(t)
			runEnding(t, &f)
		})
	}
}

func runEnding(t *testing.T, f *refusals.Ending) {
	client, server := setup{access: asSetup(f.Mine)}, setup{access: asSetup(f.His)}
	if !f.NoRecv {
		server.recvs = 1
	}
	c, s := connect(t, client, server)
	events := watch(t, c)
	c.post(f.Request(s.named(f.Closed), c.mr.SGE(sendFrom, f.Size)))
	first := make(map[*end][]string)
	if f.Forgiven {
		first[c] = []string{brief(c.next(c.SendCQ()))}
		if f.Receives() {
			first[s] = []string{brief(s.next(s.RecvCQ()))}
		}
		if err := c.Disconnect(); err != nil {
			t.Error(err)
		}
	}
	want := map[*end]string{c: f.Requester, s: f.Responder}
	for _, e := range []*end{c, s} {
		if err := e.ended(); !f.Forgiven && !errors.Is(err, rdmacm.ErrDisconnected) {
			t.Errorf("the connection ended with %v", err)
		}
		all := slices.Concat(first[e], e.flushed(), events.of(e, want[e]))
		if diff := cmp.Diff(want[e], strings.Join(all, ", ")); diff != "" {
			t.Errorf("requester %v (-want +got):\n%s", e == c, diff)
		}
	}
}

// asSetup is an access of the table.
func asSetup(a *verbs.Access) verbs.Access {
	switch {
	case a == nil:
		return 0
	case *a == 0:
		return noAccess
	}
	return *a
}

// named is a request to this end's memory, or to memory that is closed.
func (e *end) named(closed bool) verbs.SendWR {
	e.t.Helper()
	mr := e.mr
	if closed {
		mr = must(e.PD().AllocMR(memorySize, allAccess, nil))(e.t)
		if err := mr.Close(); err != nil {
			e.t.Fatal(err)
		}
	}
	return verbs.SendWR{RemoteAddr: mr.Addr(), RKey: mr.RKey()}
}

const mark = 9

// flushed posts work after the end, which has to come back flushed and behind
// all else, and returns all else.
func (e *end) flushed() []string {
	e.t.Helper()
	e.post(verbs.SendWR{WRID: mark, Opcode: verbs.OpSend, SGL: []verbs.SGE{e.mr.SGE(0, 1)}})
	if _, err := e.QP().PostRecv([]verbs.RecvWR{{WRID: mark}}); err != nil {
		e.t.Fatal(err)
	}
	return append(e.upToMark(e.SendCQ()), e.upToMark(e.RecvCQ())...)
}

func (e *end) upToMark(cq *uverbs.CQ) (all []string) {
	e.t.Helper()
	for {
		wc := e.next(cq)
		if wc.WRID != mark {
			all = append(all, brief(wc))
			continue
		}
		if wc.Status != verbs.StatusWRFlushErr {
			e.t.Errorf("posted after the end: %s", brief(wc))
		}
		return all
	}
}

// asyncLog notes the asynchronous events of the device that both ends share.
type asyncLog struct {
	all chan uverbs.AsyncEvent
}

func watch(t *testing.T, e *end) *asyncLog {
	ctx, cancel := context.WithCancel(t.Context())
	log := &asyncLog{make(chan uverbs.AsyncEvent, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev, err := e.Device().AsyncEvent(ctx); err == nil; ev, err = e.Device().AsyncEvent(ctx) {
			log.all <- ev
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return log
}

// of returns the events of an end's QP. It waits for all that are wanted, and then a
// moment for one that should not come: a later one is missed.
func (l *asyncLog) of(e *end, want string) (names []string) {
	wanted := strings.Count(want, ", QP")
	var others []uverbs.AsyncEvent
	defer func() {
		for _, ev := range others {
			l.all <- ev
		}
	}()
	for {
		wait := patience
		if len(names) >= wanted {
			wait = 20 * time.Millisecond
		}
		select {
		case ev := <-l.all:
			if ev.QP != e.QP() {
				others = append(others, ev)
				continue
			}
			names = append(names, ev.Type.String())
		case <-time.After(wait):
			slices.Sort(names)
			return names
		}
	}
}
