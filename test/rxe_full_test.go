//go:build vm

package test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxePostInState posts to a QP in each state. Work that a state
// refuses leaves nothing behind; work that it accepts completes or is flushed.
func TestRxePostInState(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		d := openRxe(t)
		a, b := d.end(t, typ, rxeSetup{}), d.end(t, typ, rxeSetup{})
		b.connect(a)
		for id := range uint64(3) {
			b.postRecv(1000+id, 0, 100)
		}
		refuses := func(state verbs.QPState, what string, n int, err error) {
			t.Helper()
			if n != 0 || !errors.Is(err, syscall.EINVAL) || !strings.Contains(fmt.Sprint(err), state.String()) {
				t.Errorf("%s in %v: %d, %v", what, state, n, err)
			}
		}
		sendIn := func(state verbs.QPState) {
			t.Helper()
			n, err := a.qp.PostSend([]verbs.SendWR{{WRID: 66, Opcode: verbs.OpSend, Flags: verbs.SendSignaled}})
			refuses(state, "a send", n, err)
		}
		sendIn(verbs.QPStateReset)
		n, err := a.qp.PostRecv([]verbs.RecvWR{{WRID: 66}})
		refuses(verbs.QPStateReset, "a receive", n, err)
		a.toInit()
		sendIn(verbs.QPStateInit)
		a.postRecv(0, 0, 100)
		a.toRTR(b)
		sendIn(verbs.QPStateRTR)
		a.postRecv(1, 0, 100)
		b.post(b.send(1, sendFrom, 10)) // arrives before a can send
		b.sent("1 SEND success")
		if wc := a.next(a.recvCQ); wc.WRID != 0 || wc.Status != verbs.StatusSuccess {
			t.Errorf("received in RTR: %+v", wc)
		}
		a.toRTS()
		a.postRecv(2, 0, 100)
		a.post(a.send(2, sendFrom, 10))
		a.sent("2 SEND success")
		if wc := b.next(b.recvCQ); wc.WRID != 1000 || wc.Status != verbs.StatusSuccess {
			t.Errorf("the first send: %+v", wc)
		}
		a.modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
		a.postRecv(3, 0, 100)
		a.post(a.send(4, sendFrom, 10))
		sends, recvs := a.drain()
		if want := []string{"4 work request flushed"}; !slices.Equal(sends, want) {
			t.Errorf("sends %q, want %q", sends, want)
		}
		if want := []string{"1 work request flushed", "2 work request flushed", "3 work request flushed"}; !slices.Equal(recvs, want) {
			t.Errorf("receives %q, want %q", recvs, want)
		}
	})
}

// TestRxeQueueFull fills each queue, which then takes nothing more and holds what
// it took as it was posted.
func TestRxeQueueFull(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		d := openRxe(t)
		a, b := d.pair(t, typ, rxeSetup{cap: verbs.QPCap{MaxSendWR: 7, MaxRecvWR: 7, MaxInline: 8}})
		for range 3 { // the ends of the ring come by
			fillBoth(t, a, b, nil)
		}
	})
	onRxe(t, "SRQ", func(t *testing.T, d *rxeDevice) {
		srq := must(d.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 7, MaxSGE: 1}))(t)
		closeLater(t, srq)
		few := verbs.QPCap{MaxSendWR: 7, MaxInline: 8}
		a, b := d.end(t, verbs.QPTypeRC, rxeSetup{cap: few}), d.end(t, verbs.QPTypeRC, rxeSetup{srq: srq})
		a.connect(b)
		b.connect(a)
		for range 3 {
			fillBoth(t, a, b, srq)
		}
	})
}

// fillBoth fills b's receive queue and a's send queue. Sends stay on it while it
// is being drained of others, in SQD.
func fillBoth(t *testing.T, a, b *rxeEnd, srq *uverbs.SRQ) {
	t.Helper()
	post, room := b.qp.PostRecv, int(b.qp.Cap().MaxRecvWR)
	if srq != nil {
		post, room = srq.PostRecv, int(srq.MaxWR())
	}
	recvs := make([]verbs.RecvWR, room+1)
	for i := range recvs {
		recvs[i] = verbs.RecvWR{WRID: uint64(1000 + i), SGL: []verbs.SGE{b.mr.SGE(i*64, 64)}}
	}
	full(t, "receives", room, func() (int, error) { return post(recvs) })
	full(t, "one more receive", 0, func() (int, error) { return post(recvs[room:]) })

	a.toSQD()
	depth := int(a.qp.Cap().MaxSendWR)
	sends := make([]verbs.SendWR, depth+1)
	for i := range sends {
		sends[i] = a.to(verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpSendImm, Imm: uint32(i), Flags: verbs.SendSignaled, Inline: message(i)})
	}
	full(t, "sends", depth, func() (int, error) { return a.qp.PostSend(sends) })
	full(t, "one more send", 0, func() (int, error) { return a.qp.PostSend(sends[depth:]) })

	a.modify(verbs.QPAttr{State: verbs.QPStateRTS}, 0)
	front := 0
	if a.qp.Type() == verbs.QPTypeUD {
		front = uverbs.GRHSize
	}
	for i := range depth {
		a.sent(fmt.Sprintf("%d SEND success", i))
		if i >= room {
			continue
		}
		if wc := b.got(fmt.Sprintf("%d RECV success %d", 1000+i, front+8)); wc.Imm != uint32(i) {
			t.Errorf("receive %d has number %d", i, wc.Imm)
		}
		if got := b.mr.Bytes()[i*64+front:][:8]; !bytes.Equal(got, message(i)) {
			t.Errorf("receive %d: %q", i, got)
		}
	}
}

func message(i int) []byte { return fmt.Appendf(nil, "text %03d", i) }

// full posts to a queue that has room for n.
func full(t *testing.T, what string, n int, post func() (int, error)) {
	t.Helper()
	if got, err := post(); got != n || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("%s: %d, %v; want %d and then no room", what, got, err, n)
	}
}

// toSQD waits until the sends of before are done.
func (e *rxeEnd) toSQD() {
	e.t.Helper()
	e.modify(verbs.QPAttr{State: verbs.QPStateSQD}, 0)
	e.drained()
}

// drained waits for the event.
func (e *rxeEnd) drained() {
	e.t.Helper()
	if ev := e.dev.event(); ev.Type != uverbs.EventSQDrained || ev.QP != e.qp {
		e.t.Errorf("%+v", ev)
	}
}
