package main

import (
	"fmt"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// operations tries each operation, and shows which of them the peer's program notices.
func operations(l *lab) {
	a, b := l.byHand(verbs.QPTypeRC, nil)
	theirs, ours := b.memory(pageSize, everything), a.memory(pageSize, everything)
	b.receive(1, theirs.SGE(0, 64))
	b.receive(2, theirs.SGE(0, 64))
	to := func(op verbs.Opcode) verbs.SendWR {
		return verbs.SendWR{Opcode: op, Imm: 7, SGL: []verbs.SGE{ours.SGE(0, 8)}, RemoteAddr: theirs.Addr() + 512, RKey: theirs.RKey()}
	}
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm, verbs.OpRDMARead, verbs.OpFetchAdd} {
		l.say("%v: here %v, there %s", op, a.do(to(op)), arrived(b.recvCQ))
	}

	// A SEND gathers pieces of memory. The receiver gets one message.
	b.receive(4, theirs.SGE(0, 64))
	copy(ours.Bytes(), "header")
	copy(ours.Bytes()[1000:], "data")
	succeed(a.do(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{ours.SGE(0, 6), ours.SGE(1000, 4)}}))
	l.say("SEND of two pieces: %q", theirs.Bytes()[:wait(b.recvCQ).ByteLen])

	// A WRITE, and a SEND that announces it. On one connection they arrive in this order.
	b.receive(3, theirs.SGE(0, 64))
	copy(ours.Bytes(), "a record")
	must(a.qp.PostSend([]verbs.SendWR{
		to(verbs.OpRDMAWrite),
		{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: []byte("at 512")},
	}))
	n := wait(b.recvCQ).ByteLen
	l.say("WRITE and SEND: the message is %q, and there is %q", theirs.Bytes()[:n], theirs.Bytes()[512:520])
}

// arrived returns the completion that the peer's program sees.
func arrived(cq *uverbs.CQ) string {
	var wcs [1]verbs.WC
	switch n, wc := must(cq.Poll(wcs[:])), &wcs[0]; {
	case n == 0:
		return "no completion"
	case wc.Flags&verbs.WCWithImm != 0:
		return fmt.Sprintf("%v, %d bytes, immediate %d", wc.Opcode, wc.ByteLen, wc.Imm)
	default:
		return fmt.Sprintf("%v, %d bytes", wc.Opcode, wc.ByteLen)
	}
}
