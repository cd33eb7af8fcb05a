package providertest

import "github.com/goverbs/goverbs/verbs"

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
	for range 2 * Depth { // so that what is not written is not zero
		p.OneMessage(0, 5, verbs.OpSend, Inline(48))
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
