package erdma

import (
	"encoding/binary"

	"github.com/goverbs/goverbs/verbs"
)

// tour is short traffic that uses each form of request, each kind of completion and each
// doorbell, and goes around the CQ and both queues. Mutations have to disturb it.
func (p *pair) tour() {
	p.T.Helper()
	p.Reach = 1024
	p.Fill(0, 1)
	a, b := &p.Side[0], &p.Side[1]
	remote, rkey := b.MR.Addr()+target, b.MR.RKey()
	got := func(n int) verbs.WC { return verbs.WC{Opcode: verbs.WCRecv, ByteLen: uint32(n)} }

	// Go once around the send queue, so that words that are not written are not zero.
	for i := range pairDepth {
		p.Send(0, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: remote + 700, RKey: rkey, Inline: a.Mem[i:][:96]})
		p.Reap()
		p.Same("fill", b.Mem[target+700:][:200], append(a.Mem[i:][:96:96], make([]byte, 104)...))
	}
	// A receive that ends where the region does, and is full.
	p.Arm(1, false)
	p.Recv(1, pairMemory-100, 100, got(100))
	p.Send(0, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.SGE(0, 30), a.SGE(30, 70)}})
	p.Event(1)
	p.Reap()
	p.Same("send", b.Mem[pairMemory-100:], a.Mem[:100])
	p.Recv(0, target+800, 5, got(5))
	p.Send(1, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: b.Mem[target+700 : target+705]})
	p.Reap()
	p.Same("back", a.Mem[target+800:target+805], b.Mem[target+700:target+705])

	imm := got(20)
	imm.Flags, imm.Imm = verbs.WCWithImm, 0x01020304
	p.Recv(1, target+100, 100, imm)
	p.Send(0, verbs.SendWR{Opcode: verbs.OpSendImm, Flags: verbs.SendSignaled, Imm: imm.Imm, Inline: a.Mem[200:220]})
	inv := got(4)
	inv.Flags, inv.Imm = verbs.WCWithInv, rkey
	p.Recv(1, target+200, 100, inv)
	p.Send(0, verbs.SendWR{Opcode: verbs.OpSendWithInv, Flags: verbs.SendSignaled, InvalidateRKey: rkey, SGL: []verbs.SGE{a.SGE(9, 4)}})
	p.Reap()
	p.Same("imm", b.Mem[target+100:target+200], append(a.Mem[200:220:220], make([]byte, 80)...))
	p.Same("inv", b.Mem[target+200:target+204], a.Mem[9:13])

	p.Send(0, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: remote + 300, RKey: rkey, SGL: []verbs.SGE{a.SGE(5, 60)}})
	p.Send(0, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: remote + 400, RKey: rkey, Inline: a.Mem[7:47]})
	imm.Opcode, imm.ByteLen = verbs.WCRecvRDMAWithImm, 10
	p.Recv(1, 0, 0, imm)
	p.Send(0, verbs.SendWR{Opcode: verbs.OpRDMAWriteImm, Flags: verbs.SendSignaled, Imm: imm.Imm, RemoteAddr: remote + 500, RKey: rkey, SGL: []verbs.SGE{a.SGE(3, 6), a.SGE(50, 4)}})
	p.Reap()
	p.Same("write", b.Mem[target+300:target+400], append(a.Mem[5:65:65], make([]byte, 40)...))
	p.Same("write inline", b.Mem[target+400:target+500], append(a.Mem[7:47:47], make([]byte, 60)...))
	p.Same("write imm", b.Mem[target+500:target+510], append(a.Mem[3:9:9], a.Mem[50:54]...))

	p.Send(0, verbs.SendWR{Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.SGE(target, 70)}, RemoteAddr: remote + 300, RKey: rkey})
	p.Reap()
	p.Same("read", a.Mem[target:target+100], append(a.Mem[5:65:65], make([]byte, 40)...))
	word := b.Mem[target+600:][:8]
	binary.NativeEndian.PutUint64(word, 0x2122232425262728)
	for _, c := range []struct {
		op                      verbs.Opcode
		cmp, swp, before, after uint64
	}{
		{verbs.OpFetchAdd, 0x0102030405060708, 0, 0x2122232425262728, 0x222426282a2c2e30},
		{verbs.OpCompareSwap, 0x222426282a2c2e30, 0x1112131415161718, 0x222426282a2c2e30, 0x1112131415161718},
	} {
		p.Send(0, verbs.SendWR{Opcode: c.op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.SGE(target+200, 8)}, RemoteAddr: remote + 600, RKey: rkey, CompareAdd: c.cmp, Swap: c.swp})
		p.Reap()
		if before, after := binary.NativeEndian.Uint64(a.Mem[target+200:]), binary.NativeEndian.Uint64(word); before != c.before || after != c.after {
			p.T.Fatalf("%v: %#x, then %#x", c.op, before, after)
		}
	}
	p.solicited()
	p.laps()
}

// solicited: the first message is not, the second is.
func (p *pair) solicited() {
	p.T.Helper()
	four := verbs.WC{Opcode: verbs.WCRecv, ByteLen: 4}
	p.Arm(1, true)
	p.Recv(1, target, 4, four)
	p.Send(0, verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{p.Side[0].SGE(4, 4)}})
	p.NoEvent(1)
	p.Recv(1, target+4, 4, four)
	p.Send(0, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled | verbs.SendSolicited, SGL: []verbs.SGE{p.Side[0].SGE(8, 4)}})
	p.Event(1)
	p.Reap()
	p.Same("solicited", p.Side[1].Mem[target:target+8], append(p.Side[0].Mem[4:8:8], p.Side[0].Mem[8:12]...))
}

// laps fills the queues to the last place again and again.
func (p *pair) laps() {
	p.T.Helper()
	for range 10 {
		var wrs []verbs.SendWR
		for j := range pairDepth {
			p.Recv(1, target+8*j, 8, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 8})
			wrs = append(wrs, verbs.SendWR{Opcode: verbs.OpSend, Inline: p.Side[0].Mem[8*j:][:8]})
		}
		wrs[pairDepth-1].Flags = verbs.SendSignaled
		p.Send(0, wrs...)
		p.Reap()
		p.Same("lap", p.Side[1].Mem[target:target+8*pairDepth], p.Side[0].Mem[:8*pairDepth])
	}
	p.Arm(1, false)
	p.Recv(1, target, 4, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 4})
	p.Send(0, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{p.Side[0].SGE(0, 4)}})
	p.Event(1)
	p.Reap()
}
