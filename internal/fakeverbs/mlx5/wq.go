package mlx5

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// CreateWQ makes the receives of a queue pair that no request made: that is all a WQ is.
func (m *model) CreateWQ(w *fakeverbs.WQ, r *ioctl.Request) error {
	const call = "WQ_CREATE"
	if m.options.Infiniband || m.version == 0 || w.Flags != 0 {
		return syscall.EOPNOTSUPP
	}
	in, err := input[abi.Mlx5IbCreateWq](m, call, r, 40)
	if err != nil {
		return err
	}
	switch {
	case in.CompMask != 0 || in.SingleStrideLogNumOfBytes|in.SingleWqeLogNumOfStrides|in.TwoByteShiftEn != 0:
		return syscall.EOPNOTSUPP
	case w.MaxWR == 0:
		return syscall.EINVAL
	}
	m.wantZero(call, "the flags", uint64(in.Flags))
	qp := fakeverbs.NewQP(m.k, &fakeverbs.QP{Num: w.Num, PD: w.PD, RecvCQ: w.CQ, Type: abi.IB_UVERBS_QPT_RAW_PACKET,
		Cap: abi.IbUverbsQpCap{MaxRecvWr: w.MaxWR, MaxRecvSge: w.MaxSGE}})
	q := &QP{m: m, qp: qp, record: in.DbAddr, index: in.UserIndex, register: -1}
	sizes := &abi.Mlx5IbCreateQp{BufAddr: in.BufAddr, RqWqeCount: in.RqWqeCount, RqWqeShift: in.RqWqeShift}
	if err := q.checkSizes(sizes); err != nil {
		return err
	}
	if err := q.pinQueues(call, sizes); err != nil {
		return err
	}
	if err := m.takeIndex(call, q.index); err != nil {
		return err
	}
	if err := m.pinRecord(call, in.DbAddr); err != nil {
		delete(m.indexes, q.index)
		return err
	}
	qp.SetQueues(q)
	w.Queue = q
	return answer(m, call, r, abi.Mlx5IbCreateWqResp{ResponseLength: 8})
}

// StandIn implements [WQQueue].
func (q *QP) StandIn() *fakeverbs.QP { return q.qp }

// EndWQ implements [WQQueue].
func (q *QP) EndWQ() {
	q.m.forgetRecord(q.record)
	delete(q.m.indexes, q.index)
	q.qp.EndQueues()
	q.qp.CurState = abi.IB_QPS_RESET
}

// ModifyWQ: a WQ takes packets when it is ready, and forgets its receives in RESET.
func (m *model) ModifyWQ(w *fakeverbs.WQ, in *abi.IbUverbsExModifyWq, r *ioctl.Request) error {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	if len(b) < 8 {
		return syscall.EINVAL
	}
	if !fakeverbs.IsZero(b) {
		return syscall.EOPNOTSUPP
	}
	was := w.State
	if err := (fakeverbs.Bare{}).ModifyWQ(w, in, r); err != nil {
		return err
	}
	q := w.Queue.(*QP)
	switch {
	case w.State == was:
	case w.State == fakeverbs.WQReset:
		q.rq.reset()
		q.qp.CurState = abi.IB_QPS_RESET
	case w.State == fakeverbs.WQReady:
		if v := m.load(q, w.Num, q.record); v != 0 {
			m.note("WQ %d: its record is %d when it becomes ready", w.Num, v)
		}
		q.qp.CurState = abi.IB_QPS_RTR
	default:
		q.EnterError()
	}
	return nil
}

const hashKey = 40 // bytes

// CreateRSSQP takes what the device can compute from: addresses of one version of IP, and ports
// of one transport.
func (m *model) CreateRSSQP(qp *fakeverbs.QP, r *ioctl.Request) error {
	const call = "QP_CREATE"
	in, err := input[abi.Mlx5IbCreateQpRss](m, call, r, 152)
	switch both := func(a, b uint64) bool { return in.RxHashFieldsMask&a != 0 && in.RxHashFieldsMask&b != 0 }; {
	case err != nil:
		return err
	case qp.Type != abi.IB_UVERBS_QPT_RAW_PACKET, in.CompMask != 0, in.Flags != 0, in.RxHashFunction != fakeverbs.HashToeplitz, in.RxHashFieldsMask&^fakeverbs.HashFields != 0:
		return syscall.EOPNOTSUPP
	case in.RxKeyLen != hashKey || in.Reserved != [6]uint8{}, both(fakeverbs.HashIPv4, fakeverbs.HashIPv6), both(fakeverbs.HashTCP, fakeverbs.HashUDP):
		return syscall.EINVAL
	}
	qp.Hash = &fakeverbs.Hash{Fields: in.RxHashFieldsMask, Key: in.RxHashKey[:hashKey:hashKey]}
	return answer(m, call, r, abi.Mlx5IbCreateQpResp{})
}
