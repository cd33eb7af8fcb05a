//go:build vm

package siw

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/test/refusals"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestFailureStatus holds siw to the table that package rdmatest's devices are held to.
func TestFailureStatus(t *testing.T) {
	kit.Fabric(t)
	for _, f := range refusals.Endings(refusals.Layout{Memory: kit.MemorySize, Source: kit.SendFrom, Recv: kit.RecvSize}) {
		t.Run(f.Name, func(t *testing.T) {
			kit.NoLeak(t)
			runEnding(t, &f)
		})
	}
}

func runEnding(t *testing.T, f *refusals.Ending) {
	client, server := kit.Setup{Access: asSetup(f.Mine)}, kit.Setup{Access: asSetup(f.His)}
	if !f.NoRecv {
		server.Recvs = 1
	}
	c, s := connect(t, client, server)
	events := watch(t, c)
	c.Post(f.Request(named(s, f.Closed), c.MR.SGE(kit.SendFrom, f.Size)))
	first := make(map[*kit.End][]string)
	if f.Forgiven {
		first[c] = []string{kit.Brief(c.Next(c.SendCQ()))}
		if f.Receives() {
			first[s] = []string{kit.Brief(s.Next(s.RecvCQ()))}
		}
		if err := c.Disconnect(); err != nil {
			t.Error(err)
		}
	}
	want := map[*kit.End]string{c: f.Requester, s: f.Responder}
	for _, e := range []*kit.End{c, s} {
		// The cause is the status of the request that failed here, if there is one.
		var status verbs.Status
		if err := e.Ended(); !f.Forgiven && !errors.Is(err, rdmacm.ErrDisconnected) && !errors.As(err, &status) {
			t.Errorf("the connection ended with %v", err)
		}
		all := slices.Concat(first[e], flushed(e), events.of(e, want[e]))
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
		return kit.NoAccess
	}
	return *a
}

// named is a request to this end's memory, or to memory that is closed.
func named(e *kit.End, closed bool) verbs.SendWR {
	e.T.Helper()
	mr := e.MR
	if closed {
		mr = kit.Must(e.PD().AllocMR(kit.MemorySize, kit.AllAccess, nil))(e.T)
		if err := mr.Close(); err != nil {
			e.T.Fatal(err)
		}
	}
	return verbs.SendWR{RemoteAddr: mr.Addr(), RKey: mr.RKey()}
}

// flushed posts work after the end, which has to come back flushed and behind
// all else, and returns all else.
func flushed(e *kit.End) []string {
	e.T.Helper()
	e.Post(verbs.SendWR{WRID: kit.Mark, Opcode: verbs.OpSend, SGL: []verbs.SGE{e.MR.SGE(0, 1)}})
	if _, err := e.QP().PostRecv([]verbs.RecvWR{{WRID: kit.Mark}}); err != nil {
		e.T.Fatal(err)
	}
	return append(upToMark(e, e.SendCQ()), upToMark(e, e.RecvCQ())...)
}

func upToMark(e *kit.End, cq *uverbs.CQ) (all []string) {
	e.T.Helper()
	for {
		wc := e.Next(cq)
		if wc.WRID != kit.Mark {
			all = append(all, kit.Brief(wc))
			continue
		}
		if wc.Status != verbs.StatusWRFlushErr {
			e.T.Errorf("posted after the end: %s", kit.Brief(wc))
		}
		return all
	}
}

// asyncLog notes the asynchronous events of the device that both ends share.
type asyncLog struct {
	all chan uverbs.AsyncEvent
}

func watch(t *testing.T, e *kit.End) *asyncLog {
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
func (l *asyncLog) of(e *kit.End, want string) (names []string) {
	wanted := strings.Count(want, ", QP")
	var others []uverbs.AsyncEvent
	defer func() {
		for _, ev := range others {
			l.all <- ev
		}
	}()
	for {
		wait := kit.Patience
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
