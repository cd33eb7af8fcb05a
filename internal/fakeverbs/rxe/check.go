package rxe

import "github.com/goverbs/goverbs/internal/abi"

// remote are the operations that name memory of the peer. The packets of the first try
// have the address that stands beside the operation, those of a later one the operation's own.
var remote = map[uint32]bool{
	abi.IB_UVERBS_WR_RDMA_WRITE: true, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM: true, abi.IB_UVERBS_WR_RDMA_READ: true,
	abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP: true, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD: true,
	abi.IB_UVERBS_WR_FLUSH: true, abi.IB_UVERBS_WR_ATOMIC_WRITE: true,
}

// check notes what leads the driver astray: it works on a send where user space left it.
func (q *QP) check(s *Send) {
	note := func(format string, args ...any) {
		q.qp.Kernel().Device.Note("QP %d: send %d: "+format, append([]any{q.qp.Num, s.Wr.WrId}, args...)...)
	}
	op := s.Wr.Opcode
	if _, ok := wcOpcodes[op]; !ok {
		note("there is no operation %d, and the driver takes it for an index", op)
		return
	}
	if s.State != 0 || s.Status != 0 || s.HasRdAtomic != 0 {
		note("state %d, status %d, %d reads: it is not as a new one", s.State, s.Status, s.HasRdAtomic)
	}
	if at := WR[abi.RxeSendWrRdma](s).RemoteAddr; remote[op] && s.Iova != at {
		note("it goes to %#x at first and to %#x when it is sent again", s.Iova, at)
	}
	inline := s.Wr.SendFlags&abi.IB_SEND_INLINE != 0 || op == abi.IB_UVERBS_WR_ATOMIC_WRITE
	checkDMA(note, &s.Dma, q.qp.Cap.MaxSendSge, inline)
	switch {
	case inline && s.Dma.Length > q.qp.Cap.MaxInlineData:
		note("%d bytes inline, of %d", s.Dma.Length, q.qp.Cap.MaxInlineData)
	case !inline && op != abi.IB_UVERBS_WR_FLUSH && s.sum() != uint64(s.Dma.Length):
		note("its SGEs have %d bytes, it says %d", s.sum(), s.Dma.Length)
	}
}

// checkDMA: copying begins where the entry says, and goes on for as long as it says.
func checkDMA(note func(string, ...any), d *abi.RxeDmaInfo, most uint32, inline bool) {
	if d.Resid != d.Length || d.CurSge != 0 || d.SgeOffset != 0 {
		note("of %d bytes %d are left, from byte %d of SGE %d", d.Length, d.Resid, d.SgeOffset, d.CurSge)
	}
	if !inline && d.NumSge > most {
		note("%d SGEs, of %d", d.NumSge, most)
	}
}

// sum is how many bytes the SGEs have.
func (s *Send) sum() (n uint64) {
	for i := range min(s.Dma.NumSge, maxSGE) {
		n += uint64(s.sge(i).Length)
	}
	return n
}

func (q *ring) check(r *Recv, most uint32) {
	note := func(format string, args ...any) {
		q.Kernel.Device.Note("receive %d: "+format, append([]any{r.WrId}, args...)...)
	}
	checkDMA(note, &r.Dma, most, false)
	n := uint64(0)
	for _, g := range r.SGE[:min(r.Dma.NumSge, maxSGE)] {
		n += uint64(g.Length)
	}
	if n != uint64(r.Dma.Length) {
		note("its SGEs have %d bytes, it says %d", n, r.Dma.Length)
	}
}
