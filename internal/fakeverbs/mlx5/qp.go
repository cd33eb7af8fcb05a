package mlx5

import (
	"bytes"
	"fmt"
	"math/bits"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// QP is the device's side of a queue pair.
type QP struct {
	m        *model
	qp       *fakeverbs.QP
	sq       ring
	rq       rq
	record   uint64
	index    uint32 // user space's own, or 0xffffff
	uar      *uar
	register int    // offset in the UAR, or -1: any of it
	told     uint32 // blocks of sends, free-running
	sends    []*send
	busy     []*send     // taken, and not known to be done
	keys     bool        // the last send changed a key
	scatters bool        // short messages come in completions
	head     [block]byte // of a send that is read
}

// ring is a queue of blocks in user memory.
type ring struct {
	m      *model
	addr   uint64
	blocks uint32
}

// read copies blocks from a free-running index on.
func (r *ring) read(what fmt.Stringer, from uint32, b []byte) {
	for ; len(b) > 0; b = b[block:] {
		at := r.addr + uint64(from&(r.blocks-1))*block
		r.m.blame(r.m.k.User.Read(at, b[:block]), "%s: its send queue is gone", what)
		from++
	}
}

func (m *model) CreateQP(qp *fakeverbs.QP, r *ioctl.Request) error {
	switch qp.Type {
	case abi.IB_UVERBS_QPT_RC, abi.IB_UVERBS_QPT_UC, abi.IB_UVERBS_QPT_UD, abi.IB_UVERBS_QPT_XRC_INI:
	case abi.IB_UVERBS_QPT_RAW_PACKET:
		if m.options.Infiniband || qp.SRQ != nil {
			return syscall.EOPNOTSUPP
		}
	default:
		return syscall.EOPNOTSUPP
	}
	const call = "QP_CREATE"
	in, err := input[abi.Mlx5IbCreateQp](m, call, r, 48)
	if err != nil {
		return err
	}
	q := &QP{m: m, qp: qp, record: in.DbAddr, index: in.Uidx, register: -1, sq: ring{m, 0, in.SqWqeCount},
		scatters: in.Flags&abi.MLX5_QP_FLAG_SCATTER_CQE != 0}
	if err := q.checkSizes(&in); err != nil {
		return err
	}
	if err := q.checkIndex(in.Uidx); err != nil {
		return err
	}
	const flags = abi.MLX5_QP_FLAG_UAR_PAGE_INDEX | abi.MLX5_QP_FLAG_SCATTER_CQE
	if in.Flags&^0xfff != 0 {
		return syscall.EINVAL
	}
	m.wantZero(call, "flags beside those of UARs and short messages", uint64(in.Flags&^flags))
	m.wantZero(call, "the reserved part, or what belongs to ECE and DCI,", uint64(in.EceOptions)|uint64(in.Reserved)|uint64(in.DciStreams.LogNumConcurent)|uint64(in.DciStreams.LogNumErrored))
	resp := abi.Mlx5IbCreateQpResp{}
	if err := q.takeUAR(&in, &resp); err != nil {
		return err
	}
	if err := q.pinQueues(call, &in); err != nil {
		return err
	}
	if err := m.pinRecord(call, in.DbAddr); err != nil {
		return err
	}
	if m.version == 1 {
		m.indexes[q.index] = true
	}
	qp.SetQueues(q)
	return answer(m, call, r, resp)
}

// pinQueues finds the sends behind the receives. A raw packet's are in memory of their own.
func (q *QP) pinQueues(call string, in *abi.Mlx5IbCreateQp) error {
	m := q.m
	receives, sends := uint64(in.RqWqeCount)<<in.RqWqeShift, uint64(in.SqWqeCount)*block
	q.rq = rq{q: q, addr: in.BufAddr, entries: in.RqWqeCount, size: 1 << in.RqWqeShift}
	if q.isRaw() {
		q.sq.addr = in.SqBufAddr
		if err := m.pin(call, in.SqBufAddr, sends); err != nil {
			return err
		}
		return m.pin(call, in.BufAddr, receives)
	}
	m.wantZero(call, "the address of a raw packet's sends", in.SqBufAddr)
	q.sq.addr = in.BufAddr + receives
	return m.pin(call, in.BufAddr, receives+sends)
}

// checkSizes refuses what the kernel does, and notes what is smaller than was asked for.
func (q *QP) checkSizes(in *abi.Mlx5IbCreateQp) error {
	c, receives := &q.qp.Cap, q.qp.SRQ == nil && q.qp.Cap.MaxRecvWr > 0
	switch {
	case in.SqWqeCount&(in.SqWqeCount-1) != 0, in.SqWqeCount > maxBlocks, c.MaxRecvWr > maxRecv:
		return syscall.EINVAL
	case !receives && (in.RqWqeCount != 0 || in.RqWqeShift != 0):
		return syscall.EINVAL
	case receives && (in.RqWqeCount == 0 || bits.OnesCount32(in.RqWqeCount) != 1 || in.RqWqeShift < 4 || in.RqWqeShift > 9):
		return syscall.EINVAL
	}
	if receives && (in.RqWqeCount < c.MaxRecvWr || 1<<in.RqWqeShift < 16*c.MaxRecvSge || in.RqWqeCount<<in.RqWqeShift < block) {
		q.m.note("QP_CREATE: %d receives of 2^%d bytes, and %d of %d SGEs are asked for", in.RqWqeCount, in.RqWqeShift, c.MaxRecvWr, c.MaxRecvSge)
	}
	if in.SqWqeCount < c.MaxSendWr {
		q.m.note("QP_CREATE: %d blocks for %d sends", in.SqWqeCount, c.MaxSendWr)
	}
	return nil
}

// checkIndex: with one version of completions user space chooses a number that they name
// the QP by, and with the other there is none.
func (q *QP) checkIndex(index uint32) error {
	switch {
	case q.m.badIndex(index):
		return syscall.EINVAL
	case q.m.isTaken(index):
		q.m.note("QP_CREATE: index %d is that of another QP", index)
	}
	return nil
}

func (m *model) isTaken(index uint32) bool { return m.version == 1 && !m.shared && m.indexes[index] }

func (q *QP) takeUAR(in *abi.Mlx5IbCreateQp, resp *abi.Mlx5IbCreateQpResp) error {
	m := q.m
	named := in.Flags&abi.MLX5_QP_FLAG_UAR_PAGE_INDEX != 0
	switch {
	case m.dynamic && !named:
		return syscall.EINVAL
	case m.dynamic:
		if q.uar = m.findUAR(in.BfregIndex); q.uar == nil {
			m.note("QP_CREATE names UAR %d, which is not the context's", in.BfregIndex)
			return syscall.EINVAL
		}
		return nil
	case named:
		m.note("QP_CREATE names UAR %d in a context without dynamic ones", in.BfregIndex)
	}
	m.wantZero("QP_CREATE", "the number of a register", uint64(in.BfregIndex))
	n := m.nextReg % bfregs
	m.nextReg++
	resp.BfregIndex = n/uarPerPage*4 + n%uarPerPage
	uar := int(n / uarPerPage)
	perPage := fakeverbs.PageSize / uarSize
	q.uar = m.uars[int64(uar/perPage)*int64(fakeverbs.PageSize)]
	size := bfSize
	if m.options.NoBlueFlame {
		size = plainReg
	}
	q.register = uar%perPage*uarSize + uarSend + int(n%uarPerPage)*size
	return nil
}

// ModifyQP is the core's table; RESET forgets all that was posted, unsaid.
func (m *model) ModifyQP(qp *fakeverbs.QP, in *abi.IbUverbsModifyQp) error {
	was := qp.CurState
	if qp.Table != nil { // it has no states
		return syscall.ENOSYS
	}
	if err := (fakeverbs.Bare{}).ModifyQP(qp, in); err != nil {
		return err
	}
	q := QPOf(qp)
	switch {
	case qp.CurState == was:
	case qp.CurState == abi.IB_QPS_RESET:
		q.told, q.sends, q.busy, qp.Taken, q.keys = 0, nil, nil, nil, false
		q.rq.reset()
	case was == abi.IB_QPS_RESET:
		for i, what := range []string{"receives", "sends"} {
			if v := m.load(q, qp.Num, q.record+uint64(4*i)); v != 0 {
				m.note("%v: its record of %s is %d when it leaves RESET", q, what, v)
			}
		}
	case qp.CurState == abi.IB_QPS_ERR:
		q.EnterError()
	case qp.CurState == abi.IB_QPS_RTR && q.isRaw():
		// The device's queue receives from INIT on, the queue pair from RTR on.
		if v := m.load(q, qp.Num, q.record); v != 0 {
			m.note("%v: its record of receives is %d before it is ready to receive", q, v)
		}
	}
	return nil
}

func (m *model) DestroyQP(qp *fakeverbs.QP) {
	if q := QPOf(qp); q != nil {
		m.forgetRecord(q.record)
		delete(m.indexes, q.index)
	}
}

// doorbell has the device read what the record tells of. b is the start of the last
// request, or all of it. It returns the last request, if there is a new one.
func (q *QP) doorbell(b []byte) (last *send) {
	m := q.m
	rec := m.load(q, q.qp.Num, q.record+4)
	n := uint32(uint16(rec - q.told))
	switch {
	case q.qp.CurState < abi.IB_QPS_RTS:
		m.note("%v: a send before it is ready to send", q)
		return nil
	case rec > 0xffff:
		m.note("%v: the record of sends is %#x, which has more than 16 bits", q, rec)
	case n == 0:
		m.note("%v: a doorbell for sends, and the record tells of no new one", q)
		return nil
	case !q.hasRoom(n):
		return nil
	}
	first := len(q.sends)
	q.takeSends(q.told + n)
	fresh := q.sends[first:]
	last = fresh[len(fresh)-1]
	switch {
	case len(b) == 8 && !bytes.Equal(b, last.raw[:8]):
		m.note("%v: the doorbell is %x, and the last send begins with %x", q, b, last.raw[:8])
	case len(b) > 8:
		q.checkCopy(b, last, len(fresh))
	}
	if q.qp.CurState == abi.IB_QPS_ERR {
		q.EnterError()
	}
	return last
}

// hasRoom notes more sends than the queue has blocks for.
func (q *QP) hasRoom(n uint32) bool {
	used := q.told + n - q.oldest()
	if used > q.sq.blocks {
		q.m.note("%v: %d blocks of sends are not completed, of a queue of %d", q, used, q.sq.blocks)
	}
	return used <= q.sq.blocks
}

// checkCopy: what is copied is one send, just as it stands in the queue.
func (q *QP) checkCopy(b []byte, last *send, fresh int) {
	switch {
	case fresh != 1:
		q.m.note("%v: a copy of a send, with %d others that are new", q, fresh-1)
	case len(b) > bfSize/2:
		q.m.note("%v: a copy of %d bytes, to a register that takes %d", q, len(b), bfSize/2)
	case len(b) != len(last.raw):
		q.m.note("%v: a copy of %d bytes of a send that has %d", q, len(b), len(last.raw))
	case !sameBytes(b, last.raw):
		q.m.note("%v: the copy is not the send in the queue: %x, not %x", q, b, last.raw)
	}
}
