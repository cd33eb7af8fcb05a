package providertest

import (
	"encoding/binary"
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// Payload is the data of a message: inline, or SGEs.
type Payload struct {
	inline int // -1: none
	sges   []int
}

// Inline is n bytes of inline data.
func Inline(n int) Payload { return Payload{n, nil} }

// Gathered is data of SGEs of these lengths.
func Gathered(lengths ...int) Payload { return Payload{-1, lengths} }

// String says what it is.
func (l Payload) String() string {
	if l.inline >= 0 {
		return fmt.Sprintf("%d bytes inline", l.inline)
	}
	return fmt.Sprintf("SGEs of %v bytes", l.sges)
}

// Len is how many bytes there are.
func (l Payload) Len() int {
	n := max(l.inline, 0)
	for _, length := range l.sges {
		n += length
	}
	return n
}

// IsInline tells inline data.
func (l Payload) IsInline() bool { return l.inline >= 0 }

// Where a message is taken from in the sender's memory, and where it goes in the receiver's.
const (
	Source = 0
	Target = 0x8000
)

// Fill gives the sender other bytes for each step.
func (p *Pair) Fill(i, step int) {
	for j := range p.Side[i].Mem[:p.Reach] {
		p.Side[i].Mem[j] = byte(j*7 + j/251 + step*13)
	}
	clear(p.Side[1-i].Mem[Target:][:p.Reach])
}

// Message makes the data of a request, and returns what the peer must get.
func (p *Pair) Message(i int, wr *verbs.SendWR, l Payload) (data []byte) {
	s := &p.Side[i]
	if l.inline >= 0 {
		wr.Inline = s.Mem[Source : Source+l.inline : Source+l.inline]
		return wr.Inline
	}
	at := Source
	for _, n := range l.sges {
		wr.SGL = append(wr.SGL, s.SGE(at, n))
		data = append(data, s.Mem[at:at+n]...)
		at += n + 64 // pieces apart
	}
	return data
}

// OneMessage sends a message, with flags that change from step to step.
func (p *Pair) OneMessage(i, step int, op verbs.Opcode, l Payload) {
	p.T.Helper()
	p.Fill(i, step)
	to := &p.Side[1-i]
	wr := verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, Imm: 0x01020300 + uint32(step), RemoteAddr: to.MR.Addr() + Target, RKey: to.MR.RKey()}
	if step%3 == 0 {
		wr.Flags |= verbs.SendFence
	}
	if step%4 == 0 {
		wr.Flags |= verbs.SendSolicited
	}
	data := p.Message(i, &wr, l)
	want := verbs.WC{Opcode: verbs.WCRecv, ByteLen: uint32(len(data))}
	switch op {
	case verbs.OpSendImm:
		want.Flags, want.Imm = verbs.WCWithImm, wr.Imm
	case verbs.OpSendWithInv:
		wr.InvalidateRKey = to.MR.RKey()
		if p.Ended != nil {
			wr.InvalidateRKey = p.Ended(p, 1-i, step)
		}
		want.Flags, want.Imm = verbs.WCWithInv, wr.InvalidateRKey
	case verbs.OpRDMAWriteImm:
		want.Opcode, want.Flags, want.Imm = verbs.WCRecvRDMAWithImm, verbs.WCWithImm, wr.Imm
	}
	if op != verbs.OpRDMAWrite {
		p.Recv(1-i, Target, Memory-Target, want)
	}
	p.Send(i, wr)
	p.Reap()
	p.Same(fmt.Sprintf("step %d, %v of %v", step, op, l), to.Mem[Target:Target+len(data)], data)
	for _, b := range to.Mem[Target+len(data) : Target+p.Reach] {
		if b != 0 {
			p.T.Fatalf("step %d, %v of %v: more than was sent", step, op, l)
		}
	}
}

// OneRead reads to places of these lengths.
func (p *Pair) OneRead(i, step int, lengths ...int) {
	p.T.Helper()
	p.Fill(1-i, step)
	s, from := &p.Side[i], &p.Side[1-i]
	wr := verbs.SendWR{Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, RemoteAddr: from.MR.Addr() + Source, RKey: from.MR.RKey()}
	n := 0
	for _, length := range lengths {
		wr.SGL = append(wr.SGL, s.SGE(Target+n, length))
		n += length
	}
	p.Send(i, wr)
	p.Reap()
	p.Same("read", s.Mem[Target:Target+n], from.Mem[Source:Source+n])
}

// Atomics adds, and swaps with and without luck.
func (p *Pair) Atomics() {
	p.T.Helper()
	s, to := &p.Side[0], &p.Side[1]
	word, old := to.Mem[64:72], s.Mem[128:136]
	binary.NativeEndian.PutUint64(word, 0x1111222233334444)
	for _, c := range []struct {
		op            verbs.Opcode
		cmp, swp      uint64
		before, after uint64
	}{
		{verbs.OpFetchAdd, 0x0102030405060708, 0, 0x1111222233334444, 0x1213252638394b4c},
		{verbs.OpCompareSwap, 1, 2, 0x1213252638394b4c, 0x1213252638394b4c},
		{verbs.OpCompareSwap, 0x1213252638394b4c, 0xa1a2a3a4a5a6a7a8, 0x1213252638394b4c, 0xa1a2a3a4a5a6a7a8},
	} {
		clear(old)
		p.Send(0, verbs.SendWR{Opcode: c.op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{s.SGE(128, 8)},
			RemoteAddr: to.MR.Addr() + 64, RKey: to.MR.RKey(), CompareAdd: c.cmp, Swap: c.swp})
		p.Reap()
		if got := binary.NativeEndian.Uint64(old); got != c.before {
			p.T.Fatalf("%v returns %#x, want %#x", c.op, got, c.before)
		}
		if got := binary.NativeEndian.Uint64(word); got != c.after {
			p.T.Fatalf("%v leaves %#x, want %#x", c.op, got, c.after)
		}
	}
}

// WriteTo has side 0 write 100 bytes to side 1 under a key.
func (p *Pair) WriteTo(step, at int, key uint32) {
	p.T.Helper()
	p.Fill(0, step)
	s, to := &p.Side[0], &p.Side[1]
	p.Send(0, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{s.SGE(0, 100)}, RemoteAddr: to.MR.Addr() + uint64(at), RKey: key})
	p.Reap()
	p.Same("window", to.Mem[at:at+100], s.Mem[:100])
}
