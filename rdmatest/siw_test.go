package rdmatest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/test/refusals"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestSIWFailures checks that failures over iWARP end as on Linux, which TestFailureStatus in package
// test holds to the same table.
func TestSIWFailures(t *testing.T) {
	for _, c := range refusals.Endings(refusals.Layout{Memory: memory, Source: sendFrom, Recv: recvSize}) {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { ends(t, &c) })
		})
	}
}

func ends(t *testing.T, c *refusals.Ending) {
	a, b := meet(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.SIW}), nil)
	from, to := region(t, a, c.Mine), region(t, b, c.His)
	if !c.NoRecv {
		if _, err := b.QP().PostRecv([]verbs.RecvWR{{WRID: 1000, SGL: []verbs.SGE{to.SGE(0, recvSize)}}}); err != nil {
			t.Fatal(err)
		}
	}
	wr := verbs.SendWR{RemoteAddr: to.Addr(), RKey: to.RKey()}
	if c.Closed {
		gone := must(b.PD().AllocMR(memory, all&^verbs.AccessMWBind, nil))(t)
		wr.RemoteAddr, wr.RKey = gone.Addr(), gone.RKey()
		if err := gone.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.QP().PostSend([]verbs.SendWR{c.Request(wr, from.SGE(sendFrom, c.Size))}); err != nil {
		t.Fatal(err)
	}
	if c.Forgiven {
		if err := a.Disconnect(); err != nil {
			t.Error(err)
		}
	}
	<-a.Done()
	<-b.Done()
	if got := chronicle(t, a); got != c.Requester {
		t.Errorf("requester: %s, want %s", got, c.Requester)
	}
	if got := chronicle(t, b); got != c.Responder {
		t.Errorf("responder: %s, want %s", got, c.Responder)
	}
	if err := errors.Join(a.Err(), b.Err()); !c.Forgiven && !errors.Is(err, rdmacm.ErrDisconnected) {
		t.Error(err)
	}
}

// chronicle is all that became of an end: completions, sends first, and then events.
func chronicle(t *testing.T, c *rdmacm.Conn) string {
	t.Helper()
	var all []string
	wcs := make([]verbs.WC, 8)
	for _, cq := range []*uverbs.CQ{c.SendCQ(), c.RecvCQ()} {
		n, err := cq.Poll(wcs)
		if err != nil {
			t.Error(err)
		}
		for _, wc := range wcs[:n] {
			all = append(all, fmt.Sprintf("%d %v %v", wc.WRID, wc.Opcode, wc.Status))
		}
	}
	return strings.Join(append(all, eventsOf(t, c)...), ", ")
}

// eventsOf are the asynchronous events of an end's queue pair that have come. It waits for none.
func eventsOf(t *testing.T, c *rdmacm.Conn) (names []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev, err := c.Device().AsyncEvent(ctx); err == nil; ev, err = c.Device().AsyncEvent(ctx) {
			if ev.QP == c.QP() {
				names = append(names, ev.Type.String())
			}
		}
	}()
	synctest.Wait()
	cancel()
	<-done
	return names
}

// region is memory of a connection's that both ends may use, or as far as is said.
func region(t *testing.T, c *rdmacm.Conn, lets *verbs.Access) *uverbs.MR {
	t.Helper()
	access := all &^ verbs.AccessMWBind
	if lets != nil {
		access = *lets
	}
	mr := must(c.PD().AllocMR(memory, access, nil))(t)
	c.Own(mr)
	return mr
}

func poll(t *testing.T, cq *uverbs.CQ) verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, 1)
	if n, err := cq.Poll(wcs); n == 0 || err != nil {
		t.Fatal("no completion", err)
	}
	return wcs[0]
}
