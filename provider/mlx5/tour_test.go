package mlx5

import (
	"github.com/goverbs/goverbs/uverbs"
)

// tour is short traffic that uses each form of request, each kind of completion and each
// doorbell, and goes around the CQ and both queues. It is what mutations have to disturb.
func (p *pair) tour() {
	p.T.Helper()
	p.Reach = 2048
	step := 0
	message := func(op uverbs.Opcode, l payload) {
		if step++; p.has(op) {
			p.OneMessage(0, step, op, l)
		}
	}
	p.Arm(1, false)
	message(uverbs.OpSend, gathered(30, 70))
	p.Event(1)
	p.Arm(0, false)
	p.OneMessage(1, step, uverbs.OpSend, gathered(30))
	p.Event(0)
	// Twice around the send queue, so that what is not written is not zero.
	for range 2 * pairDepth {
		message(uverbs.OpSend, inline(pairInline))
	}
	for _, op := range []uverbs.Opcode{uverbs.OpSend, uverbs.OpSendImm, uverbs.OpSendWithInv, uverbs.OpRDMAWrite, uverbs.OpRDMAWriteImm} {
		message(op, inline(20))
		message(op, gathered(7, 100, 1000))
	}
	message(uverbs.OpSend, gathered())
	if p.has(uverbs.OpRDMARead) {
		p.OneRead(1, 3, 50, 50)
	}
	if p.has(uverbs.OpFetchAdd) {
		p.Atomics()
	}
	if p.has(uverbs.OpBindMW) {
		p.window2()
		p.window1()
	}
	for range 2 { // for solicited completions only, and none before
		p.Arm(1, true)
		p.Recv(1, target, 256, uverbs.WC{Opcode: uverbs.WCRecv, ByteLen: 4})
		p.Recv(1, target, 256, uverbs.WC{Opcode: uverbs.WCRecv, ByteLen: 4})
		wr := uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{p.Side[0].SGE(0, 4)}}
		p.Send(0, wr)
		p.NoEvent(1)
		wr.Flags = uverbs.SendSolicited | uverbs.SendSignaled
		p.Send(0, wr)
		p.Event(1)
		p.Reap()
	}
	p.resizeTo(3, 63)
	p.failing()
}

// failing has a send end with an error and take the QP with it.
func (p *pair) failing() {
	p.T.Helper()
	if p.Type != uverbs.QPTypeRC {
		return
	}
	s, to := &p.Side[0], &p.Side[1]
	p.Next++
	post(p.T, s.QP, uverbs.SendWR{WRID: p.Next, Opcode: uverbs.OpRDMAWrite, SGL: []uverbs.SGE{s.SGE(0, 8)}, RemoteAddr: to.MR.Addr() + pairMemory, RKey: to.MR.RKey()})
	s.Want = append(s.Want, uverbs.WC{WRID: p.Next, QPN: s.QP.Num(), Status: uverbs.StatusRemAccessErr, VendorErr: 0x93})
	p.Reap()
}
