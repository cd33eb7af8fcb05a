package main

import (
	"encoding/binary"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// order shows two clients that count, and a client that uses the data of a READ too early.
func order(l *lab) {
	a, b := l.byHand(verbs.QPTypeRC, nil)
	c, _ := second(a, b)
	counter := b.memory(pageSize, everything)
	first, other := a.memory(64, local), c.memory(64, local)
	number := func(mr *uverbs.MR) uint64 { return binary.NativeEndian.Uint64(mr.Bytes()) }
	to := func(op verbs.Opcode, mr *uverbs.MR) verbs.SendWR {
		return verbs.SendWR{Opcode: op, SGL: []verbs.SGE{mr.SGE(0, 8)}, RemoteAddr: counter.Addr(), RKey: counter.RKey()}
	}

	// READ, add, WRITE: both have read before either writes.
	succeed(a.do(to(verbs.OpRDMARead, first)))
	succeed(c.do(to(verbs.OpRDMARead, other)))
	for _, mr := range []*uverbs.MR{first, other} {
		binary.NativeEndian.PutUint64(mr.Bytes(), number(mr)+1)
	}
	succeed(a.do(to(verbs.OpRDMAWrite, first)))
	succeed(c.do(to(verbs.OpRDMAWrite, other)))
	l.say("two clients added 1 with READ and WRITE: %d", number(counter))

	binary.NativeEndian.PutUint64(counter.Bytes(), 0)
	add := func(e *end, mr *uverbs.MR) uint64 {
		wr := to(verbs.OpFetchAdd, mr)
		wr.CompareAdd = 1
		succeed(e.do(wr))
		return number(mr)
	}
	l.say("two clients added 1 with FETCH_ADD, and found %d and %d: %d", add(a, first), add(c, other), number(counter))

	binary.NativeEndian.PutUint64(counter.Bytes(), 0)
	lock := func(e *end, mr *uverbs.MR, owner uint64) uint64 {
		wr := to(verbs.OpCompareSwap, mr)
		wr.CompareAdd, wr.Swap = 0, owner
		succeed(e.do(wr))
		return number(mr)
	}
	l.say("both took a lock with CMP_AND_SWP of 0, and found %d and %d: it is %d's", lock(a, first, 1), lock(c, other, 2), number(counter))

	odd := to(verbs.OpFetchAdd, first)
	odd.RemoteAddr += 4
	l.say("an atomic operation at an address that is not a multiple of 8: %v", a.do(odd))
	l.closeAll()

	for _, flags := range []verbs.SendFlags{0, verbs.SendFence} {
		a, b := l.byHand(verbs.QPTypeRC, nil)
		theirs, ours := b.memory(pageSize, everything), a.memory(pageSize, local)
		copy(theirs.Bytes(), "new")
		copy(ours.Bytes(), "old")
		b.receive(1, theirs.SGE(64, 64))
		l.network(rdmatest.RXE).SetLatency(time.Millisecond)
		must(a.qp.PostSend([]verbs.SendWR{
			{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{ours.SGE(0, 3)}, RemoteAddr: theirs.Addr(), RKey: theirs.RKey()},
			{Opcode: verbs.OpSend, Flags: flags | verbs.SendSignaled, SGL: []verbs.SGE{ours.SGE(0, 3)}},
		}))
		wait(b.recvCQ)
		l.say("READ, and SEND of what it brings, with fence %v: %q", flags == verbs.SendFence, theirs.Bytes()[64:67])
		l.network(rdmatest.RXE).SetLatency(0)
		wait(a.sendCQ)
		l.closeAll()
	}
}
