//go:build vm

package rxe

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxePostInState posts to a QP in each state. Work that a state
// refuses leaves nothing behind; work that it accepts completes or is flushed.
func TestRxePostInState(t *testing.T) {
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		d := kit.OpenRxe(t)
		a, b := d.End(t, typ, kit.RxeSetup{}), d.End(t, typ, kit.RxeSetup{})
		b.Connect(a)
		for id := range uint64(3) {
			b.PostRecv(1000+id, 0, 100)
		}
		refuses := func(state verbs.QPState, what string, n int, err error) {
			t.Helper()
			if n != 0 || !errors.Is(err, syscall.EINVAL) || !strings.Contains(fmt.Sprint(err), state.String()) {
				t.Errorf("%s in %v: %d, %v", what, state, n, err)
			}
		}
		sendIn := func(state verbs.QPState) {
			t.Helper()
			n, err := a.QP.PostSend([]verbs.SendWR{{WRID: 66, Opcode: verbs.OpSend, Flags: verbs.SendSignaled}})
			refuses(state, "a send", n, err)
		}
		sendIn(verbs.QPStateReset)
		n, err := a.QP.PostRecv([]verbs.RecvWR{{WRID: 66}})
		refuses(verbs.QPStateReset, "a receive", n, err)
		a.ToInit()
		sendIn(verbs.QPStateInit)
		a.PostRecv(0, 0, 100)
		a.ToRTR(b)
		sendIn(verbs.QPStateRTR)
		a.PostRecv(1, 0, 100)
		b.Post(b.Send(1, kit.SendFrom, 10)) // arrives before a can send
		b.Sent("1 SEND success")
		if wc := a.Next(a.RecvCQ); wc.WRID != 0 || wc.Status != verbs.StatusSuccess {
			t.Errorf("received in RTR: %+v", wc)
		}
		a.ToRTS()
		a.PostRecv(2, 0, 100)
		a.Post(a.Send(2, kit.SendFrom, 10))
		a.Sent("2 SEND success")
		if wc := b.Next(b.RecvCQ); wc.WRID != 1000 || wc.Status != verbs.StatusSuccess {
			t.Errorf("the first send: %+v", wc)
		}
		a.Modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
		a.PostRecv(3, 0, 100)
		a.Post(a.Send(4, kit.SendFrom, 10))
		sends, recvs := drain(a)
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
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		d := kit.OpenRxe(t)
		a, b := d.Pair(t, typ, kit.RxeSetup{Cap: verbs.QPCap{MaxSendWR: 7, MaxRecvWR: 7, MaxInline: 8}})
		for range 3 { // the ends of the ring come by
			fillBoth(t, a, b, nil)
		}
	})
	onRxe(t, "SRQ", func(t *testing.T, d *kit.RxeDevice) {
		srq := kit.Must(d.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 7, MaxSGE: 1}))(t)
		kit.CloseLater(t, srq)
		few := verbs.QPCap{MaxSendWR: 7, MaxInline: 8}
		a, b := d.End(t, verbs.QPTypeRC, kit.RxeSetup{Cap: few}), d.End(t, verbs.QPTypeRC, kit.RxeSetup{SRQ: srq})
		a.Connect(b)
		b.Connect(a)
		for range 3 {
			fillBoth(t, a, b, srq)
		}
	})
}

// fillBoth fills b's receive queue and a's send queue. Sends stay on it while it
// is being drained of others, in SQD.
func fillBoth(t *testing.T, a, b *kit.RxeEnd, srq *uverbs.SRQ) {
	t.Helper()
	post, room := b.QP.PostRecv, int(b.QP.Cap().MaxRecvWR)
	if srq != nil {
		post, room = srq.PostRecv, int(srq.MaxWR())
	}
	recvs := make([]verbs.RecvWR, room+1)
	for i := range recvs {
		recvs[i] = verbs.RecvWR{WRID: uint64(1000 + i), SGL: []verbs.SGE{b.MR.SGE(i*64, 64)}}
	}
	full(t, "receives", room, func() (int, error) { return post(recvs) })
	full(t, "one more receive", 0, func() (int, error) { return post(recvs[room:]) })

	toSQD(a)
	depth := int(a.QP.Cap().MaxSendWR)
	sends := make([]verbs.SendWR, depth+1)
	for i := range sends {
		sends[i] = a.To(verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpSendImm, Imm: uint32(i), Flags: verbs.SendSignaled, Inline: message(i)})
	}
	full(t, "sends", depth, func() (int, error) { return a.QP.PostSend(sends) })
	full(t, "one more send", 0, func() (int, error) { return a.QP.PostSend(sends[depth:]) })

	a.Modify(verbs.QPAttr{State: verbs.QPStateRTS}, 0)
	front := 0
	if a.QP.Type() == verbs.QPTypeUD {
		front = uverbs.GRHSize
	}
	for i := range depth {
		a.Sent(fmt.Sprintf("%d SEND success", i))
		if i >= room {
			continue
		}
		if wc := b.Got(fmt.Sprintf("%d RECV success %d", 1000+i, front+8)); wc.Imm != uint32(i) {
			t.Errorf("receive %d has number %d", i, wc.Imm)
		}
		if got := b.MR.Bytes()[i*64+front:][:8]; !bytes.Equal(got, message(i)) {
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
func toSQD(e *kit.RxeEnd) {
	e.T.Helper()
	e.Modify(verbs.QPAttr{State: verbs.QPStateSQD}, 0)
	drained(e)
}

// drained waits for the event.
func drained(e *kit.RxeEnd) {
	e.T.Helper()
	if ev := event(e.Dev); ev.Type != verbs.EventSQDrained || ev.QP != e.QP {
		e.T.Errorf("%+v", ev)
	}
}

// bad is a send that is refused before the kernel sees it.
type bad struct {
	name string
	wr   verbs.SendWR
	want error
}

// TestRxeRefused posts requests that a QP can't carry out. They leave nothing behind:
// the message after each arrives, and a batch stops where it goes wrong.
func TestRxeRefused(t *testing.T) {
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		a, b := kit.OpenRxe(t).Pair(t, typ, kit.RxeSetup{Cap: verbs.QPCap{MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 20}})
		id := uint64(0)
		for _, c := range append(malformed(a), unsupported(a)...) {
			id++
			b.PostRecv(1000+id, 0, 100)
			good := a.Send(id, kit.SendFrom, 10)
			n, err := a.QP.PostSend([]verbs.SendWR{good, c.wr, good})
			if n != 1 || !errors.Is(err, c.want) {
				t.Errorf("%s: %d, %v; want 1 and %v", c.name, n, err, c.want)
			}
			if wc := a.Next(a.SendCQ); wc.WRID != id || wc.Status != verbs.StatusSuccess {
				t.Fatalf("%s: sent %+v", c.name, wc)
			}
			if wc := b.Next(b.RecvCQ); wc.WRID != 1000+id || wc.Status != verbs.StatusSuccess {
				t.Fatalf("%s: received %+v", c.name, wc)
			}
		}
		long := slices.Repeat([]verbs.SGE{a.MR.SGE(0, 1)}, int(b.QP.Cap().MaxRecvSGE)+1)
		if n, err := b.QP.PostRecv([]verbs.RecvWR{{WRID: 1}, {WRID: 2, SGL: long}}); n != 1 || !errors.Is(err, verbs.ErrInvalidWR) {
			t.Errorf("receive: %d, %v", n, err)
		}
		sends, recvs := drain(b)
		if !slices.Equal(recvs, []string{"1 work request flushed"}) || len(sends) > 0 {
			t.Errorf("left on the queues: %v, %v", sends, recvs)
		}
	})
}

// malformed are sends of which the QP's capacity, or their own parts, say no.
func malformed(a *kit.RxeEnd) []bad {
	sge, c := a.MR.SGE(kit.SendFrom, 8), a.QP.Cap()
	half := verbs.SGE{Addr: sge.Addr, Length: 1 << 31, LKey: sge.LKey}
	send := func(change func(*verbs.SendWR)) verbs.SendWR {
		wr := a.Send(66, kit.SendFrom, 8)
		change(&wr)
		return wr
	}
	all := []bad{
		{"SGL", send(func(wr *verbs.SendWR) { wr.SGL = slices.Repeat([]verbs.SGE{sge}, int(c.MaxSendSGE)+1) }), verbs.ErrInvalidWR},
		{"inline", send(func(wr *verbs.SendWR) { wr.SGL, wr.Inline = nil, make([]byte, c.MaxInline+1) }), verbs.ErrInvalidWR},
		{"SGL and inline", send(func(wr *verbs.SendWR) { wr.Inline = make([]byte, 1) }), verbs.ErrInvalidWR},
		{"flags", send(func(wr *verbs.SendWR) { wr.Flags |= 1 << 3 }), verbs.ErrInvalidWR},
		{"length", send(func(wr *verbs.SendWR) { wr.SGL = []verbs.SGE{half, sge} }), verbs.ErrInvalidWR},
	}
	if a.QP.Type() == verbs.QPTypeUD {
		foreign := kit.Must(a.Dev.AllocPD())(a.T)
		kit.CloseLater(a.T, foreign)
		to := a.Address(a.AtPeer)
		other, gone := kit.Must(foreign.CreateAH(&to))(a.T), kit.Must(a.Dev.PD.CreateAH(&to))(a.T)
		kit.CloseLater(a.T, other)
		if err := gone.Close(); err != nil {
			a.T.Fatal(err)
		}
		return append(all,
			bad{"no AH", send(func(wr *verbs.SendWR) { wr.AH = nil }), verbs.ErrInvalidWR},
			bad{"AH of another PD", send(func(wr *verbs.SendWR) { wr.AH = other }), verbs.ErrInvalidWR},
			bad{"AH closed", send(func(wr *verbs.SendWR) { wr.AH = gone }), verbs.ErrInvalidWR},
			bad{"no MTU is that large", send(func(wr *verbs.SendWR) { wr.SGL[0].Length = 4097 }), verbs.ErrInvalidWR})
	}
	all = append(all, bad{"a bind of nothing", send(func(wr *verbs.SendWR) { wr.Opcode, wr.SGL = verbs.OpBindMW, nil }), verbs.ErrInvalidWR})
	if a.QP.Type() == verbs.QPTypeRC {
		all = append(all,
			bad{"atomic of 4 bytes", send(func(wr *verbs.SendWR) { wr.Opcode, wr.SGL[0].Length = verbs.OpFetchAdd, 4 }), verbs.ErrInvalidWR},
			bad{"read into inline", send(func(wr *verbs.SendWR) { wr.Opcode, wr.SGL, wr.Inline = verbs.OpRDMARead, nil, make([]byte, 8) }), verbs.ErrInvalidWR},
			bad{"invalidation of data", send(func(wr *verbs.SendWR) { wr.Opcode = verbs.OpLocalInv }), verbs.ErrInvalidWR})
	}
	return all
}

// unsupported has all opcodes that the QP's type does not have, and some that
// nobody has. 32 is a fast registration, which is for the kernel's own QPs.
func unsupported(a *kit.RxeEnd) (all []bad) {
	ops := []verbs.Opcode{verbs.OpReadWithInv, 10, 12, 13, 16, 31, 32, 33, 255, 1 << 31, 1<<32 - 1}
	if a.QP.Type() != verbs.QPTypeRC {
		ops = append(ops, verbs.OpSendWithInv, verbs.OpRDMARead, verbs.OpCompareSwap, verbs.OpFetchAdd, verbs.OpLocalInv,
			verbs.OpFlush, verbs.OpAtomicWrite)
	}
	if a.QP.Type() == verbs.QPTypeUD {
		ops = append(ops, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm, verbs.OpBindMW)
	}
	for _, op := range ops {
		wr := a.Send(66, kit.SendFrom, 8)
		wr.Opcode = op
		all = append(all, bad{op.String(), wr, verbs.ErrNotSupported})
	}
	return all
}
