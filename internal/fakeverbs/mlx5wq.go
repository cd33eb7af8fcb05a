package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// createWQ makes the receives of a queue pair that no request made: that is all a WQ is.
func (m *mlx5) createWQ(w *WQ, r *ioctl.Request) error {
	const call = "WQ_CREATE"
	if m.k.MLX5.Infiniband || m.version == 0 || w.Flags != 0 {
		return syscall.EOPNOTSUPP
	}
	in, err := mlx5Input[abi.Mlx5IbCreateWq](m, call, r, 40)
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
	qp := &QP{k: m.k, Num: w.Num, PD: w.PD, RecvCQ: w.CQ, Type: abi.IB_UVERBS_QPT_RAW_PACKET,
		Cap: abi.IbUverbsQpCap{MaxRecvWr: w.MaxWR, MaxRecvSge: w.MaxSGE}}
	q := &MLX5QP{m: m, qp: qp, record: in.DbAddr, index: in.UserIndex, register: -1}
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
	qp.MLX5, qp.queues, w.MLX5 = q, q, q
	return mlx5Answer(m, call, r, abi.Mlx5IbCreateWqResp{ResponseLength: 8})
}

func (q *MLX5QP) endWQ() {
	q.m.forgetRecord(q.record)
	delete(q.m.indexes, q.index)
	q.qp.queues, q.qp.state = gone{}, abi.IB_QPS_RESET
}

// modifyWQ: a WQ takes packets when it is ready, and forgets its receives in RESET.
func (m *mlx5) modifyWQ(w *WQ, in *abi.IbUverbsExModifyWq, r *ioctl.Request) error {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	if len(b) < 8 {
		return syscall.EINVAL
	}
	if !zeros(b) {
		return syscall.EOPNOTSUPP
	}
	was := w.State
	if err := (bare{}).modifyWQ(w, in, r); err != nil {
		return err
	}
	q := w.MLX5
	switch {
	case w.State == was:
	case w.State == wqReset:
		q.rq.reset()
		q.qp.state = abi.IB_QPS_RESET
	case w.State == wqReady:
		if v := m.load(q, w.Num, q.record); v != 0 {
			m.note("WQ %d: its record is %d when it becomes ready", w.Num, v)
		}
		q.qp.state = abi.IB_QPS_RTR
	default:
		q.fail()
	}
	return nil
}

const mlx5HashKey = 40 // bytes

// createRSSQP takes what the device can compute from: addresses of one version of IP, and ports
// of one transport.
func (m *mlx5) createRSSQP(qp *QP, r *ioctl.Request) error {
	const call = "QP_CREATE"
	in, err := mlx5Input[abi.Mlx5IbCreateQpRss](m, call, r, 152)
	switch both := func(a, b uint64) bool { return in.RxHashFieldsMask&a != 0 && in.RxHashFieldsMask&b != 0 }; {
	case err != nil:
		return err
	case qp.Type != abi.IB_UVERBS_QPT_RAW_PACKET, in.CompMask != 0, in.Flags != 0, in.RxHashFunction != hashToeplitz, in.RxHashFieldsMask&^hashFields != 0:
		return syscall.EOPNOTSUPP
	case in.RxKeyLen != mlx5HashKey || in.Reserved != [6]uint8{}, both(hashIPv4, hashIPv6), both(hashTCP, hashUDP):
		return syscall.EINVAL
	}
	qp.Hash = &Hash{Fields: in.RxHashFieldsMask, Key: in.RxHashKey[:mlx5HashKey:mlx5HashKey]}
	return mlx5Answer(m, call, r, abi.Mlx5IbCreateQpResp{})
}
