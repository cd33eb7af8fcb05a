package providertest

import (
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
)

// Script is which parts of the script a device has. Its twin is a row of the table of kinds
// in test/sandbox/script.c.
type Script struct {
	Ops []verbs.Opcode // of messages, in this order
	// Skips leaves out a message.
	Skips                   func(verbs.Opcode, Payload) bool
	Reads, Atomics, Windows bool
	Resizes                 bool // CQs, and SRQs
	// Solicits says that the device knows solicited completions of receives.
	Solicits bool
}

var payloads = []Payload{
	Inline(0), Inline(1), Inline(15), Inline(16), Inline(17), Inline(47), Inline(48), Inline(49), Inline(80), Inline(81), Inline(96),
	Gathered(), Gathered(1), Gathered(4096), Gathered(8, 8), Gathered(7, 100, 1000), Gathered(1, 2, 3, 4),
	Gathered(300, 200, 100, 50, 25), Gathered(1, 20, 300, 4000, 500, 60),
}

// Run carries out the script: all operations, data of all forms, events, and queues that go
// around many times.
func (p *Pair) Run(s *Script) {
	p.T.Helper()
	step := 0
	for _, op := range s.Ops {
		for _, l := range payloads {
			if s.Skips == nil || !s.Skips(op, l) {
				step++
				p.OneMessage(step%2, step, op, l)
			}
		}
	}
	if s.Reads {
		for _, n := range []int{1, 8, 4096, 32768} {
			step++
			p.OneRead(step%2, step, n)
		}
	}
	if s.Atomics {
		p.Atomics()
	}
	p.Batches(60)
	for round := range 10 {
		p.EventOf(round%2 == 1 && s.Solicits, false)
	}
	if s.Windows {
		p.windows()
	}
	if s.Resizes {
		p.resizes()
	}
}

// ethernetHeader is the length of two addresses and a type.
const ethernetHeader = 14

// Frames sends Ethernet frames from side 0 to side 1, whose rule takes all.
func (p *Pair) Frames() {
	p.T.Helper()
	rule := Must[*uverbs.Flow](p.T)(p.Side[1].QP.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{&flow.Eth{}}}))
	defer func() { p.try(rule.Close) }()
	for step := 1; step <= 4*len(payloads); step++ {
		if l := payloads[step%len(payloads)]; l.Len() > ethernetHeader && l.Len() <= 1200 {
			p.OneMessage(0, step, verbs.OpSend, l)
		}
	}
}

// Batches posts lists of up to eight requests, of which the last is signaled. All queues go
// around many times.
func (p *Pair) Batches(rounds int) {
	p.T.Helper()
	for round := range rounds {
		n := round%Depth + 1
		p.Fill(0, round)
		var wrs []verbs.SendWR
		for j := range n {
			size := 16 * (j + 1) % 112
			p.Recv(1, Target+256*j, 256, verbs.WC{Opcode: verbs.WCRecv, ByteLen: uint32(size)})
			wr := verbs.SendWR{Opcode: verbs.OpSend}
			if j%2 == 0 && size <= int(p.Side[0].QP.Cap().MaxInline) {
				p.Message(0, &wr, Inline(size))
			} else {
				p.Message(0, &wr, Gathered(size))
			}
			wrs = append(wrs, wr)
		}
		wrs[n-1].Flags = verbs.SendSignaled
		p.Send(0, wrs...)
		p.Reap()
		for j := range n {
			size := 16 * (j + 1) % 112
			p.Same("batch", p.Side[1].Mem[Target+256*j:][:size], p.Side[0].Mem[:size])
		}
	}
}

// EventOf sends two messages, of which the second is solicited, to a CQ that is armed before,
// or late. The sender's CQ is not armed.
func (p *Pair) EventOf(solicited, late bool) {
	p.T.Helper()
	if !late {
		p.Arm(1, solicited)
	}
	for range 2 {
		p.Recv(1, Target, 256, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 4})
	}
	wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{p.Side[0].SGE(0, 4)}}
	p.Send(0, wr)
	if !p.NoFlags {
		wr.Flags |= verbs.SendSolicited
	}
	p.Send(0, wr)
	if late {
		p.Arm(1, solicited)
	}
	p.Event(1)
	p.Reap()
	p.NoEvent(0) // which is not armed, although its second completion is a solicited send's
}

// resizes gives side 1's CQ other sizes while it holds completions, and its SRQ while it holds
// receives.
func (p *Pair) resizes() {
	p.T.Helper()
	s := &p.Side[1]
	for round, n := range []int{200, 15, 63} {
		p.toResize(round+2, func() error { return s.CQ.Resize(n) }, nil)
	}
	for round, n := range []int{20, 8, 15} {
		if s.SRQ != nil {
			p.toResize(round+2, nil, func() error { return s.SRQ.Resize(n) })
		}
	}
}

// toResize sends n messages. It calls posted, unless that is nil, when their receives are posted,
// and sent when all have arrived and none has been polled for.
func (p *Pair) toResize(n int, sent, posted func() error) {
	p.T.Helper()
	p.Fill(0, n)
	for j := range n {
		p.Recv(1, Target+256*j, 256, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 4})
	}
	p.try(posted)
	for j := range n {
		p.Send(0, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{p.Side[0].SGE(8*j, 4)}})
	}
	p.try(sent)
	p.Reap()
	for j := range n {
		p.Same("resize", p.Side[1].Mem[Target+256*j:][:4], p.Side[0].Mem[8*j:][:4])
	}
}

func (p *Pair) try(f func() error) {
	p.T.Helper()
	if f == nil {
		return
	}
	if err := f(); err != nil {
		p.T.Fatal(err)
	}
}

// windows binds windows of both types, writes through them, and ends those of type 2 from
// either side.
func (p *Pair) windows() {
	p.T.Helper()
	mw := Must[*uverbs.MW](p.T)(p.PD.AllocMW(verbs.MWType2))
	for round := range 6 {
		p.windowOfType2(round, mw)
	}
	p.end(mw)
	mw = Must[*uverbs.MW](p.T)(p.PD.AllocMW(verbs.MWType1))
	for round := range 3 {
		p.Bind(mw, verbs.BindMW{MR: p.Side[1].MR, Addr: p.Side[1].MR.Addr() + Target, Length: 4096, Access: verbs.AccessRemoteWrite})
		p.WriteTo(round, Target, mw.RKey())
	}
	p.Bind(mw, verbs.BindMW{MR: p.Side[1].MR})
	p.end(mw)
}

func (p *Pair) windowOfType2(round int, mw *uverbs.MW) {
	p.T.Helper()
	s := &p.Side[1]
	key, access := uverbs.IncRKey(mw.RKey()), verbs.AccessRemoteWrite
	if round%3 == 1 {
		access |= verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	}
	b := verbs.BindMW{MW: mw, RKey: key, MR: s.MR, Addr: s.MR.Addr() + Target, Length: 4096, Access: access}
	p.Send(1, verbs.SendWR{Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: &b})
	p.Reap()
	p.isBound(key, &b)
	p.WriteTo(round, Target, key)
	if round%2 == 0 {
		p.Send(1, verbs.SendWR{Opcode: verbs.OpLocalInv, Flags: verbs.SendSignaled, InvalidateRKey: key})
	} else {
		p.Recv(1, Target, 256, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 8, Flags: verbs.WCWithInv, Imm: key})
		p.Send(0, verbs.SendWR{Opcode: verbs.OpSendWithInv, Flags: verbs.SendSignaled, SGL: []verbs.SGE{p.Side[0].SGE(0, 8)}, InvalidateRKey: key})
	}
	p.Reap()
	if round%2 != 0 {
		p.Same("ending a window", s.Mem[Target:Target+8], p.Side[0].Mem[:8])
	}
	if len(p.Wire.Windows) > 0 {
		p.T.Fatalf("windows %#x are bound still", p.Wire.Windows)
	}
}

// Bind binds a window of type 1 through side 1's QP.
func (p *Pair) Bind(mw *uverbs.MW, b verbs.BindMW) {
	p.T.Helper()
	p.Next++
	p.Owe(1, &verbs.SendWR{WRID: p.Next, Opcode: verbs.OpBindMW})
	if err := mw.Bind(p.Side[1].QP, p.Next, verbs.SendSignaled, b); err != nil {
		p.T.Fatal(err)
	}
	p.Reap()
	if b.Length > 0 {
		p.isBound(mw.RKey(), &b)
	} else if len(p.Wire.Windows) > 0 {
		p.T.Fatalf("windows %#x are bound", p.Wire.Windows)
	}
}

// isBound fails unless one window is bound, to exactly what b says: a peer that gets more than that
// can't be noticed by its use of the rest.
func (p *Pair) isBound(key uint32, b *verbs.BindMW) {
	p.T.Helper()
	w := p.Wire.Windows[key]
	if len(p.Wire.Windows) != 1 || w.Addr != b.Addr || w.Length != b.Length || w.Access != uint32(b.Access) {
		p.T.Fatalf("windows %#x are bound, want %#x with %d bytes from %#x, rights %v", p.Wire.Windows, key, b.Length, b.Addr, b.Access)
	}
}

func (p *Pair) end(mw *uverbs.MW) {
	p.T.Helper()
	if err := mw.Close(); err != nil {
		p.T.Fatal(err)
	}
}

// Tour is short traffic with all parts of the script: each form of request, each kind of
// completion, each doorbell, either direction, and queues that go around. It is for
// [Mutations].
func (p *Pair) Tour(s *Script) {
	p.T.Helper()
	p.Reach = 1024
	p.Arm(1, false)
	p.OneMessage(0, 1, verbs.OpSend, Gathered(30, 70))
	p.Event(1)
	p.OneMessage(1, 2, verbs.OpSend, Gathered(30))
	for range 2 * Depth { // so that bytes that are not written are not zero
		p.OneMessage(0, 5, verbs.OpSend, Inline(min(48, int(p.Side[0].QP.Cap().MaxInline))))
	}
	for step, op := range s.Ops {
		for _, l := range []Payload{Inline(20), Gathered(7, 100, 300)} {
			if s.Skips == nil || !s.Skips(op, l) {
				p.OneMessage(0, 12*step+1, op, l) // with no flags but one
			}
		}
	}
	p.OneMessage(0, 1, verbs.OpSend, Gathered())
	if s.Reads {
		p.OneRead(1, 3, 100)
	}
	if s.Atomics {
		p.Atomics()
	}
	if s.Windows {
		p.windows()
	}
	if s.Solicits {
		p.Arm(1, true)
		wr := verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{p.Side[0].SGE(0, 4)}}
		p.Fill(0, 1)
		for _, flags := range []verbs.SendFlags{0, verbs.SendSolicited | verbs.SendSignaled} {
			p.NoEvent(1)
			if wr.Flags = flags; flags != 0 {
				p.Same("unsolicited", p.Side[1].Mem[Target:Target+4], p.Side[0].Mem[:4])
				wr.SGL[0] = p.Side[0].SGE(4, 4)
			}
			p.Recv(1, Target, 256, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 4})
			p.Send(0, wr)
		}
		p.Event(1)
		p.Reap()
		p.Same("solicited", p.Side[1].Mem[Target:Target+4], p.Side[0].Mem[4:8])
	}
	if s.Resizes {
		p.resizes()
	}
	p.Batches(2 * Depth)
	p.EventOf(false, false)
}
