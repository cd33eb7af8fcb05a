package mlx5

import "github.com/goverbs/goverbs/verbs"

// tour is short traffic that uses each form of request, each kind of completion and each
// doorbell, and goes around the CQ and both queues. Mutations have to disturb it.
func (p *pair) tour() {
	p.T.Helper()
	p.Reach = 2048
	step := 0
	message := func(op verbs.Opcode, l payload) {
		if step++; p.has(op) {
			p.OneMessage(0, step, op, l)
		}
	}
	p.Arm(1, false)
	message(verbs.OpSend, gathered(30, 70))
	p.Event(1)
	p.Arm(0, false)
	p.OneMessage(1, step, verbs.OpSend, gathered(30))
	p.Event(0)
	// Go twice around the send queue, so that words that are not written are not zero.
	for range 2 * pairDepth {
		message(verbs.OpSend, inline(pairInline))
	}
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpSendWithInv, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm} {
		message(op, inline(20))
		message(op, gathered(7, 100, 1000))
	}
	message(verbs.OpSend, gathered())
	if p.has(verbs.OpRDMARead) {
		p.OneRead(1, 3, 50, 50)
	}
	if p.has(verbs.OpFetchAdd) {
		p.Atomics()
	}
	if p.has(verbs.OpBindMW) {
		p.window2()
		p.window1()
	}
	for range 2 { // for solicited completions only, and none before
		p.Arm(1, true)
		p.Recv(1, target, 256, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 4})
		p.Recv(1, target, 256, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 4})
		wr := verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{p.Side[0].SGE(0, 4)}}
		p.Send(0, wr)
		p.NoEvent(1)
		wr.Flags = verbs.SendSolicited | verbs.SendSignaled
		p.Send(0, wr)
		p.Event(1)
		p.Reap()
	}
	p.resizeTo(3, 63)
	p.failing()
}

// failing fails a send, and the QP with it.
func (p *pair) failing() {
	p.T.Helper()
	if p.Type != verbs.QPTypeRC {
		return
	}
	s, to := &p.Side[0], &p.Side[1]
	if to.SRQ == nil {
		p.Recv(1, target, 256, verbs.WC{Status: verbs.StatusWRFlushErr, VendorErr: 0x85})
	}
	p.Next++
	post(p.T, s.QP, verbs.SendWR{WRID: p.Next, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{s.SGE(0, 8)}, RemoteAddr: to.MR.Addr() + pairMemory, RKey: to.MR.RKey()})
	s.Want = append(s.Want, verbs.WC{WRID: p.Next, QPN: s.QP.Num(), Status: verbs.StatusRemAccessErr, VendorErr: 0x93})
	p.Reap()
}
