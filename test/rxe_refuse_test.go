//go:build vm

package test

import (
	"errors"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
)

// bad is a send that is refused before the kernel sees it.
type bad struct {
	name string
	wr   uverbs.SendWR
	want error
}

// TestRxeRefused posts what a QP can't carry out. Nothing of it is left behind:
// the message after each arrives, and a batch stops where it goes wrong.
func TestRxeRefused(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ uverbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		a, b := openRxe(t).pair(t, typ, rxeSetup{cap: uverbs.QPCap{MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 20}})
		id := uint64(0)
		for _, c := range append(malformed(a), unsupported(a)...) {
			id++
			b.postRecv(1000+id, 0, 100)
			good := a.send(id, sendFrom, 10)
			n, err := a.qp.PostSend([]uverbs.SendWR{good, c.wr, good})
			if n != 1 || !errors.Is(err, c.want) {
				t.Errorf("%s: %d, %v; want 1 and %v", c.name, n, err, c.want)
			}
			if wc := a.next(a.sendCQ); wc.WRID != id || wc.Status != uverbs.StatusSuccess {
				t.Fatalf("%s: sent %+v", c.name, wc)
			}
			if wc := b.next(b.recvCQ); wc.WRID != 1000+id || wc.Status != uverbs.StatusSuccess {
				t.Fatalf("%s: received %+v", c.name, wc)
			}
		}
		long := slices.Repeat([]uverbs.SGE{a.mr.SGE(0, 1)}, int(b.qp.Cap().MaxRecvSGE)+1)
		if n, err := b.qp.PostRecv([]uverbs.RecvWR{{WRID: 1}, {WRID: 2, SGL: long}}); n != 1 || !errors.Is(err, uverbs.ErrInvalidWR) {
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
	half := uverbs.SGE{Addr: sge.Addr, Length: 1 << 31, LKey: sge.LKey}
	send := func(change func(*uverbs.SendWR)) uverbs.SendWR {
		wr := a.send(66, sendFrom, 8)
		change(&wr)
		return wr
	}
	all := []bad{
		{"SGL", send(func(wr *uverbs.SendWR) { wr.SGL = slices.Repeat([]uverbs.SGE{sge}, int(c.MaxSendSGE)+1) }), uverbs.ErrInvalidWR},
		{"inline", send(func(wr *uverbs.SendWR) { wr.SGL, wr.Inline = nil, make([]byte, c.MaxInline+1) }), uverbs.ErrInvalidWR},
		{"SGL and inline", send(func(wr *uverbs.SendWR) { wr.Inline = make([]byte, 1) }), uverbs.ErrInvalidWR},
		{"flags", send(func(wr *uverbs.SendWR) { wr.Flags |= 1 << 3 }), uverbs.ErrInvalidWR},
		{"length", send(func(wr *uverbs.SendWR) { wr.SGL = []uverbs.SGE{half, sge} }), uverbs.ErrInvalidWR},
	}
	if a.qp.Type() == uverbs.QPTypeUD {
		foreign := must(a.dev.AllocPD())(a.t)
		closeLater(a.t, foreign)
		to := a.address(a.peer)
		other, gone := must(foreign.CreateAH(&to))(a.t), must(a.dev.pd.CreateAH(&to))(a.t)
		closeLater(a.t, other)
		if err := gone.Close(); err != nil {
			a.t.Fatal(err)
		}
		return append(all,
			bad{"no AH", send(func(wr *uverbs.SendWR) { wr.AH = nil }), uverbs.ErrInvalidWR},
			bad{"AH of another PD", send(func(wr *uverbs.SendWR) { wr.AH = other }), uverbs.ErrInvalidWR},
			bad{"AH closed", send(func(wr *uverbs.SendWR) { wr.AH = gone }), uverbs.ErrInvalidWR},
			bad{"no MTU is that large", send(func(wr *uverbs.SendWR) { wr.SGL[0].Length = 4097 }), uverbs.ErrInvalidWR})
	}
	all = append(all, bad{"a bind of nothing", send(func(wr *uverbs.SendWR) { wr.Opcode, wr.SGL = uverbs.OpBindMW, nil }), uverbs.ErrInvalidWR})
	if a.qp.Type() == uverbs.QPTypeRC {
		all = append(all,
			bad{"atomic of 4 bytes", send(func(wr *uverbs.SendWR) { wr.Opcode, wr.SGL[0].Length = uverbs.OpFetchAdd, 4 }), uverbs.ErrInvalidWR},
			bad{"read into inline", send(func(wr *uverbs.SendWR) { wr.Opcode, wr.SGL, wr.Inline = uverbs.OpRDMARead, nil, make([]byte, 8) }), uverbs.ErrInvalidWR},
			bad{"invalidation of data", send(func(wr *uverbs.SendWR) { wr.Opcode = uverbs.OpLocalInv }), uverbs.ErrInvalidWR})
	}
	return all
}

// unsupported has all opcodes that the QP's type does not have, and some that
// nobody has. 32 is a fast registration, which is for the kernel's own QPs.
func unsupported(a *rxeEnd) (all []bad) {
	ops := []uverbs.Opcode{uverbs.OpReadWithInv, 10, 12, 13, 16, 31, 32, 33, 255, 1 << 31, 1<<32 - 1}
	if a.qp.Type() != uverbs.QPTypeRC {
		ops = append(ops, uverbs.OpSendWithInv, uverbs.OpRDMARead, uverbs.OpCompareSwap, uverbs.OpFetchAdd, uverbs.OpLocalInv,
			uverbs.OpFlush, uverbs.OpAtomicWrite)
	}
	if a.qp.Type() == uverbs.QPTypeUD {
		ops = append(ops, uverbs.OpRDMAWrite, uverbs.OpRDMAWriteImm, uverbs.OpBindMW)
	}
	for _, op := range ops {
		wr := a.send(66, sendFrom, 8)
		wr.Opcode = op
		all = append(all, bad{op.String(), wr, uverbs.ErrNotSupported})
	}
	return all
}
