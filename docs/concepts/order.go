package main

import (
	"encoding/binary"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// order has two clients count, and a client use too early what a READ brings.
func order(l *lab) {
	a, b := l.byHand(uverbs.QPTypeRC, nil)
	c, _ := second(a, b)
	counter := b.memory(pageSize, everything)
	first, other := a.memory(64, local), c.memory(64, local)
	number := func(mr *uverbs.MR) uint64 { return binary.NativeEndian.Uint64(mr.Bytes()) }
	to := func(op uverbs.Opcode, mr *uverbs.MR) uverbs.SendWR {
		return uverbs.SendWR{Opcode: op, SGL: []uverbs.SGE{mr.SGE(0, 8)}, RemoteAddr: counter.Addr(), RKey: counter.RKey()}
	}

	// READ, add, WRITE: both have read before either writes.
	succeed(a.do(to(uverbs.OpRDMARead, first)))
	succeed(c.do(to(uverbs.OpRDMARead, other)))
	for _, mr := range []*uverbs.MR{first, other} {
		binary.NativeEndian.PutUint64(mr.Bytes(), number(mr)+1)
	}
	succeed(a.do(to(uverbs.OpRDMAWrite, first)))
	succeed(c.do(to(uverbs.OpRDMAWrite, other)))
	l.say("two clients added 1 with READ and WRITE: %d", number(counter))

	binary.NativeEndian.PutUint64(counter.Bytes(), 0)
	add := func(e *end, mr *uverbs.MR) uint64 {
		wr := to(uverbs.OpFetchAdd, mr)
		wr.CompareAdd = 1
		succeed(e.do(wr))
		return number(mr)
	}
	l.say("two clients added 1 with FETCH_ADD, and found %d and %d: %d", add(a, first), add(c, other), number(counter))

	binary.NativeEndian.PutUint64(counter.Bytes(), 0)
	lock := func(e *end, mr *uverbs.MR, owner uint64) uint64 {
		wr := to(uverbs.OpCompareSwap, mr)
		wr.CompareAdd, wr.Swap = 0, owner
		succeed(e.do(wr))
		return number(mr)
	}
	l.say("both took a lock with CMP_AND_SWP of 0, and found %d and %d: it is %d's", lock(a, first, 1), lock(c, other, 2), number(counter))

	odd := to(uverbs.OpFetchAdd, first)
	odd.RemoteAddr += 4
	l.say("an atomic operation at an address that is no multiple of 8: %v", a.do(odd))
	l.closeAll()

	for _, flags := range []uverbs.SendFlags{0, uverbs.SendFence} {
		a, b := l.byHand(uverbs.QPTypeRC, nil)
		theirs, ours := b.memory(pageSize, everything), a.memory(pageSize, local)
		copy(theirs.Bytes(), "new")
		copy(ours.Bytes(), "old")
		b.receive(1, theirs.SGE(64, 64))
		l.network(rdmatest.RXE).SetLatency(time.Millisecond)
		must(a.qp.PostSend([]uverbs.SendWR{
			{Opcode: uverbs.OpRDMARead, SGL: []uverbs.SGE{ours.SGE(0, 3)}, RemoteAddr: theirs.Addr(), RKey: theirs.RKey()},
			{Opcode: uverbs.OpSend, Flags: flags | uverbs.SendSignaled, SGL: []uverbs.SGE{ours.SGE(0, 3)}},
		}))
		wait(b.recvCQ)
		l.say("READ, and SEND of what it brings, with fence %v: %q", flags == uverbs.SendFence, theirs.Bytes()[64:67])
		l.network(rdmatest.RXE).SetLatency(0)
		wait(a.sendCQ)
		l.closeAll()
	}
}
