//go:build vm

package test

import (
	"errors"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// bad is a send that is refused before the kernel sees it.
type bad struct {
	name string
	wr   verbs.SendWR
	want error
}

// TestRxeRefused posts requests that a QP can't carry out. They leave nothing behind:
// the message after each arrives, and a batch stops where it goes wrong.
func TestRxeRefused(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		a, b := openRxe(t).pair(t, typ, rxeSetup{cap: verbs.QPCap{MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 20}})
		id := uint64(0)
		for _, c := range append(malformed(a), unsupported(a)...) {
			id++
			b.postRecv(1000+id, 0, 100)
			good := a.send(id, sendFrom, 10)
			n, err := a.qp.PostSend([]verbs.SendWR{good, c.wr, good})
			if n != 1 || !errors.Is(err, c.want) {
				t.Errorf("%s: %d, %v; want 1 and %v", c.name, n, err, c.want)
			}
			if wc := a.next(a.sendCQ); wc.WRID != id || wc.Status != verbs.StatusSuccess {
				t.Fatalf("%s: sent %+v", c.name, wc)
			}
			if wc := b.next(b.recvCQ); wc.WRID != 1000+id || wc.Status != verbs.StatusSuccess {
				t.Fatalf("%s: received %+v", c.name, wc)
			}
		}
		long := slices.Repeat([]verbs.SGE{a.mr.SGE(0, 1)}, int(b.qp.Cap().MaxRecvSGE)+1)
		if n, err := b.qp.PostRecv([]verbs.RecvWR{{WRID: 1}, {WRID: 2, SGL: long}}); n != 1 || !errors.Is(err, verbs.ErrInvalidWR) {
			t.Errorf("receive: %d, %v", n, err)
		}
		sends, recvs := b.drain()
		if !slices.Equal(recvs, []string{"1 work request flushed"}) || len(sends) > 0 {
			t.Errorf("left on the queues: %v, %v", sends, recvs)
		}
	})
}

// malformed are sends of which the QP's capacity, or their own parts, say no.
func malformed(a *rxeEnd) []bad {
	sge, c := a.mr.SGE(sendFrom, 8), a.qp.Cap()
	half := verbs.SGE{Addr: sge.Addr, Length: 1 << 31, LKey: sge.LKey}
	send := func(change func(*verbs.SendWR)) verbs.SendWR {
		wr := a.send(66, sendFrom, 8)
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
	if a.qp.Type() == verbs.QPTypeUD {
		foreign := must(a.dev.AllocPD())(a.t)
		closeLater(a.t, foreign)
		to := a.address(a.peer)
		other, gone := must(foreign.CreateAH(&to))(a.t), must(a.dev.pd.CreateAH(&to))(a.t)
		closeLater(a.t, other)
		if err := gone.Close(); err != nil {
			a.t.Fatal(err)
		}
		return append(all,
			bad{"no AH", send(func(wr *verbs.SendWR) { wr.AH = nil }), verbs.ErrInvalidWR},
			bad{"AH of another PD", send(func(wr *verbs.SendWR) { wr.AH = other }), verbs.ErrInvalidWR},
			bad{"AH closed", send(func(wr *verbs.SendWR) { wr.AH = gone }), verbs.ErrInvalidWR},
			bad{"no MTU is that large", send(func(wr *verbs.SendWR) { wr.SGL[0].Length = 4097 }), verbs.ErrInvalidWR})
	}
	all = append(all, bad{"a bind of nothing", send(func(wr *verbs.SendWR) { wr.Opcode, wr.SGL = verbs.OpBindMW, nil }), verbs.ErrInvalidWR})
	if a.qp.Type() == verbs.QPTypeRC {
		all = append(all,
			bad{"atomic of 4 bytes", send(func(wr *verbs.SendWR) { wr.Opcode, wr.SGL[0].Length = verbs.OpFetchAdd, 4 }), verbs.ErrInvalidWR},
			bad{"read into inline", send(func(wr *verbs.SendWR) { wr.Opcode, wr.SGL, wr.Inline = verbs.OpRDMARead, nil, make([]byte, 8) }), verbs.ErrInvalidWR},
			bad{"invalidation of data", send(func(wr *verbs.SendWR) { wr.Opcode = verbs.OpLocalInv }), verbs.ErrInvalidWR})
	}
	return all
}

// unsupported has all opcodes that the QP's type does not have, and some that
// nobody has. 32 is a fast registration, which is for the kernel's own QPs.
func unsupported(a *rxeEnd) (all []bad) {
	ops := []verbs.Opcode{verbs.OpReadWithInv, 10, 12, 13, 16, 31, 32, 33, 255, 1 << 31, 1<<32 - 1}
	if a.qp.Type() != verbs.QPTypeRC {
		ops = append(ops, verbs.OpSendWithInv, verbs.OpRDMARead, verbs.OpCompareSwap, verbs.OpFetchAdd, verbs.OpLocalInv,
			verbs.OpFlush, verbs.OpAtomicWrite)
	}
	if a.qp.Type() == verbs.QPTypeUD {
		ops = append(ops, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm, verbs.OpBindMW)
	}
	for _, op := range ops {
		wr := a.send(66, sendFrom, 8)
		wr.Opcode = op
		all = append(all, bad{op.String(), wr, verbs.ErrNotSupported})
	}
	return all
}
