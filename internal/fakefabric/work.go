package fakefabric

import (
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// kind is what a send does.
type kind int

const (
	send kind = iota
	write
	read
	add
	swap
)

// work is a send, of either driver.
type work struct {
	id        uint64
	opcode    uint32 // the driver's
	kind      kind
	signalled bool
	imm       uint32 // as it stands
	hasImm    bool
	addr      uint64
	key       uint32
	compare   uint64 // or what is added
	swap      uint64
	data      []byte // of a send or a write
	pieces           // that others fill
}

// size is how many bytes of the peer's memory are concerned.
func (w *work) size() int {
	if w.kind == send || w.kind == write {
		return len(w.data)
	}
	return w.pieces.size()
}

// take takes the oldest send off the queue.
func (e end) take() (work, bool) {
	if e.qp.SIW != nil {
		return e.takeSIW()
	}
	return e.takeRXE()
}

var siwKinds = map[uint8]kind{abi.SIW_OP_SEND: send, abi.SIW_OP_WRITE: write, abi.SIW_OP_READ: read}

func (e end) takeSIW() (w work, ok bool) {
	s, ok := e.qp.SIW.TakeSend()
	if !ok {
		return w, false
	}
	w = work{id: s.Id, opcode: uint32(s.Opcode), signalled: s.Flags&abi.SIW_WQE_SIGNALLED != 0, addr: s.Raddr, key: s.Rkey}
	if w.kind, ok = siwKinds[s.Opcode]; !ok {
		e.d.f.t.Errorf("siw's operation %d", s.Opcode)
	}
	if s.Flags&abi.SIW_WQE_INLINE != 0 {
		w.data = slices.Clone(abi.Bytes(&s.Sge)[16:][:s.Sge[0].Length])
		return w, true
	}
	var spans []span
	for _, g := range s.Sge[:s.NumSge] {
		spans = append(spans, span{g.Laddr, g.Length, g.Lkey})
	}
	w.pieces = e.d.local(spans)
	w.data = w.gather()
	return w, true
}

var rxeKinds = map[uint32]kind{
	abi.IB_UVERBS_WR_SEND: send, abi.IB_UVERBS_WR_SEND_WITH_IMM: send,
	abi.IB_UVERBS_WR_RDMA_WRITE: write, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM: write, abi.IB_UVERBS_WR_RDMA_READ: read,
	abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD: add, abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP: swap,
}

func (e end) takeRXE() (w work, ok bool) {
	s, ok := e.qp.RXE.TakeSend()
	if !ok {
		return w, false
	}
	w = work{id: s.Wr.WrId, opcode: s.Wr.Opcode, signalled: s.Wr.SendFlags&abi.IB_SEND_SIGNALED != 0, imm: s.Wr.Ex,
		hasImm: s.Wr.Opcode == abi.IB_UVERBS_WR_SEND_WITH_IMM || s.Wr.Opcode == abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM}
	if w.kind, ok = rxeKinds[s.Wr.Opcode]; !ok {
		e.d.f.t.Errorf("rxe's operation %d", s.Wr.Opcode)
	}
	switch w.kind {
	case write, read:
		r := fakeverbs.RXEWR[abi.RxeSendWrRdma](&s)
		w.addr, w.key = r.RemoteAddr, r.Rkey
	case add, swap:
		r := fakeverbs.RXEWR[abi.RxeSendWrAtomic](&s)
		w.addr, w.key, w.compare, w.swap = r.RemoteAddr, r.Rkey, r.CompareAdd, r.Swap
	}
	if s.Wr.SendFlags&abi.IB_SEND_INLINE != 0 {
		w.data = slices.Clone(s.Payload[:s.Dma.Length])
		return w, true
	}
	var spans []span
	for i := range s.Dma.NumSge {
		var g abi.RxeSge
		copy(abi.Bytes(&g), s.Payload[16*i:])
		spans = append(spans, span{g.Addr, g.Length, g.Lkey})
	}
	w.pieces = e.d.local(spans)
	w.data = w.gather()
	return w, true
}
