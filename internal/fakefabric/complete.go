package fakefabric

import "github.com/goverbs/goverbs/internal/abi"

// takeReceive takes the oldest receive, of the queue pair or of its SRQ.
func (e end) takeReceive() (id uint64, room pieces, ok bool) {
	var spans []span
	if e.qp.SIW != nil {
		r, ok := e.qp.SIW.TakeRecv()
		if !ok {
			return 0, nil, false
		}
		for _, g := range r.Sge[:r.NumSge] {
			spans = append(spans, span{g.Laddr, g.Length, g.Lkey})
		}
		return r.Id, e.d.local(spans), true
	}
	r, ok := e.qp.RXE.TakeRecv()
	if !ok {
		return 0, nil, false
	}
	for _, g := range r.SGE[:r.Dma.NumSge] {
		spans = append(spans, span{g.Addr, g.Length, g.Lkey})
	}
	return r.WrId, e.d.local(spans), true
}

// received completes a receive.
func (e end) received(id uint64, w *work) {
	n := uint32(len(w.data))
	if e.qp.SIW != nil {
		e.qp.RecvCQ.SIW.Complete(abi.SiwCqe{Id: id, Opcode: abi.SIW_OP_RECEIVE, Bytes: n, QpId: uint64(e.qp.Num)})
		return
	}
	wc := abi.IbUverbsWc{WrId: id, Opcode: abi.IB_WC_RECV, ByteLen: n, QpNum: e.qp.Num}
	if w.kind == write {
		wc.Opcode = abi.IB_WC_RECV_RDMA_WITH_IMM
	}
	if w.hasImm {
		wc.Ex, wc.WcFlags = w.imm, abi.IB_WC_WITH_IMM
	}
	e.qp.RecvCQ.RXE.Complete(wc)
}

var rxeCompletions = map[kind]uint32{send: abi.IB_WC_SEND, write: abi.IB_WC_RDMA_WRITE, read: abi.IB_WC_RDMA_READ,
	add: abi.IB_WC_FETCH_ADD, swap: abi.IB_WC_COMP_SWAP}

// complete completes a send, or has it fail because there is no peer.
func (e end) complete(w *work, failed bool) {
	if e.qp.SIW != nil {
		c := abi.SiwCqe{Id: w.id, Opcode: uint8(w.opcode), Bytes: uint32(w.size()), QpId: uint64(e.qp.Num)}
		if failed {
			c.Status = abi.SIW_WC_WR_FLUSH_ERR
		}
		e.qp.SendCQ.SIW.Complete(c)
		return
	}
	c := abi.IbUverbsWc{WrId: w.id, Opcode: rxeCompletions[w.kind], ByteLen: uint32(w.size()), QpNum: e.qp.Num}
	if failed {
		c.Status = abi.IB_WC_RETRY_EXC_ERR
	}
	e.qp.SendCQ.RXE.Complete(c)
}
