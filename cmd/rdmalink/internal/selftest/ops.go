package selftest

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// operands holds the operands of an atomic operation on the value before, and its result.
type operands struct{ compareAdd, swap, want uint64 }

const before, other uint64 = 0x1122334455667788, 0x99aabbccddeeff00

func compareSwap(typ verbs.QPType) func(*environment) (string, error) {
	return func(b *environment) (string, error) {
		return atomics(b, typ, verbs.OpCompareSwap, []operands{{before, other, other}, {before + 1, other, before}, {before, 0, 0}})
	}
}

func fetchAdd(typ verbs.QPType) func(*environment) (string, error) {
	return func(b *environment) (string, error) {
		return atomics(b, typ, verbs.OpFetchAdd, []operands{{1, 0, before + 1}, {1 << 63, 0, before + 1<<63}, {^before + 1, 0, 0}})
	}
}

func atomics(b *environment, typ verbs.QPType, op verbs.Opcode, all []operands) (string, error) {
	if b.attr.AtomicCap == verbs.AtomicNone || !b.dev.Supports(typ, op) {
		return "", none("%v queue pairs have no %v here", typ, op)
	}
	p, err := b.pair(typ)
	if err != nil {
		return "", err
	}
	from, to := &p.ends[0], &p.ends[1]
	for _, o := range all {
		binary.NativeEndian.PutUint64(to.mem[half:], before)
		err := p.send(verbs.SendWR{Opcode: op, SGL: from.sgl(half, 8, 1), RemoteAddr: to.mr.Addr() + half, RKey: to.mr.RKey(), CompareAdd: o.compareAdd, Swap: o.swap})
		if err != nil {
			return "", err
		}
		if old, now := binary.NativeEndian.Uint64(from.mem[half:]), binary.NativeEndian.Uint64(to.mem[half:]); old != before || now != o.want {
			return "", fmt.Errorf("%v of %#x with %#x, %#x: it was %#x and is %#x, and should be %#x", op, before, o.compareAdd, o.swap, old, now, o.want)
		}
	}
	return fmt.Sprintf("%d numbers", len(all)), nil
}

// lists posts sends in lists of all lengths, of which only the last asks for a completion,
// until the queues have gone around several times.
func lists(b *environment) (string, error) {
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	const size = 80
	all := 0
	for round := range 4 * depth {
		n := round%depth + 1
		sends, recvs := make([]verbs.SendWR, n), make([]verbs.RecvWR, n)
		p.fill(p.ends[0].source(n * size))
		clear(p.ends[1].target(n * size))
		for i := range n {
			sends[i] = verbs.SendWR{WRID: p.id(), Opcode: verbs.OpSend, SGL: p.ends[0].sgl(i*size, size, 1+i%p.pieces(verbs.OpSend))}
			recvs[i] = verbs.RecvWR{WRID: p.id(), SGL: p.ends[1].sgl(half+i*size, size, 1)}
		}
		sends[n-1].Flags = verbs.SendSignaled
		if err := errors.Join(p.postRecv(recvs...), p.post(sends...)); err != nil {
			return "", err
		}
		sent, err := p.wait(p.ends[0].qp.SendCQ(), 1)
		if err != nil {
			return "", err
		}
		got, err := p.wait(p.ends[1].recvs, n)
		if err != nil {
			return "", err
		}
		if sent[0].WRID != sends[n-1].WRID || got[n-1].WRID != recvs[n-1].WRID {
			return "", fmt.Errorf("a list of %d: the last completions are of %d and %d, not of %d and %d", n, sent[0].WRID, got[n-1].WRID, sends[n-1].WRID, recvs[n-1].WRID)
		}
		if err := p.same("a list", p.ends[1].target(n*size), p.ends[0].source(n*size)); err != nil {
			return "", err
		}
		all += n
	}
	return fmt.Sprintf("%d messages in lists of 1 to %d", all, depth), nil
}

// fence posts a READ, and a SEND of the data that it read, in one list.
func fence(b *environment) (string, error) {
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	from, to := &p.ends[0], &p.ends[1]
	const size, times = 64 << 10, 20
	for range times {
		p.fill(to.source(size))
		clear(from.target(size))
		clear(to.target(size))
		if err := p.postRecv(verbs.RecvWR{WRID: p.id(), SGL: to.sgl(half, size, 1)}); err != nil {
			return "", err
		}
		err := p.post(verbs.SendWR{WRID: p.id(), Opcode: verbs.OpRDMARead, SGL: from.sgl(half, size, 1), RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey()},
			verbs.SendWR{WRID: p.id(), Opcode: verbs.OpSend, Flags: verbs.SendFence | verbs.SendSignaled, SGL: from.sgl(half, size, 1)})
		if err != nil {
			return "", err
		}
		if _, err := p.wait(from.qp.SendCQ(), 1); err != nil {
			return "", err
		}
		if _, err := p.wait(to.recvs, 1); err != nil {
			return "", err
		}
		if err := p.same("what was read and sent on", to.target(size), to.source(size)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d reads of %d bytes, sent on", times, size), nil
}

// bothWays sends from both ends at the same time.
func bothWays(b *environment) (string, error) {
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	const size, times = 4096, 50
	if err := p.message(message{op: verbs.OpSend, size: size}); err != nil { // on iWARP the dialling end sends first
		return "", err
	}
	for range times {
		for i := range p.ends {
			e := &p.ends[i]
			p.fill(e.source(size))
			if _, err := e.qp.PostRecv([]verbs.RecvWR{{WRID: p.id(), SGL: e.sgl(half, size, 1)}}); err != nil {
				return "", err
			}
		}
		for i := range p.ends {
			wr := verbs.SendWR{WRID: p.id(), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: p.ends[i].sgl(0, size, 1)}
			if _, err := p.ends[i].qp.PostSend([]verbs.SendWR{wr}); err != nil {
				return "", err
			}
		}
		for i := range p.ends {
			for _, cq := range []*uverbs.CQ{p.ends[i].qp.SendCQ(), p.ends[i].recvs} {
				if _, err := p.wait(cq, 1); err != nil {
					return "", err
				}
			}
			if err := p.same("data", p.ends[i].target(size), p.ends[1-i].source(size)); err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("%d messages each way", times), nil
}
