package mlx5

import (
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// The roles of queue pairs of the dynamically connected transport, which are flags of their creation.
const (
	roleDCI = abi.MLX5_QP_FLAG_TYPE_DCI
	roleDCT = abi.MLX5_QP_FLAG_TYPE_DCT
	roles   = roleDCI | roleDCT
)

// IsTarget reports whether the queue pair is a DCT.
func (q *QP) IsTarget() bool { return q.role == roleDCT }

// Key returns the key that requests to a DCT must have.
func (q *QP) Key() uint64 { return q.key }

func (q *QP) isInitiator() bool { return q.role == roleDCI }

// checkRole makes the driver's checks of the type of a queue pair, and stores its role.
func (q *QP) checkRole(in *abi.Mlx5IbCreateQp) error {
	if q.qp.Type != abi.IB_UVERBS_QPT_DRIVER {
		return nil
	}
	q.role = in.Flags & roles
	c := &q.qp.Cap
	switch {
	case q.role != roleDCI && q.role != roleDCT:
		return syscall.EINVAL
	case q.m.options.NoDCT:
		return syscall.EOPNOTSUPP
	case q.qp.Flags&^abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0,
		q.role == roleDCI && (c.MaxRecvWr != 0 || c.MaxRecvSge != 0),
		q.role == roleDCT && q.qp.SRQ == nil:
		return syscall.EINVAL
	}
	if in.Flags&abi.MLX5_QP_FLAG_DCI_STREAM == 0 {
		return nil
	}
	d := &in.DciStreams
	if q.role != roleDCI || q.m.options.NoStreams || d.LogNumConcurent > maxLogStreams || d.LogNumErrored > maxLogErrored {
		return syscall.EINVAL
	}
	q.streams = &streams{most: 1 << d.LogNumErrored}
	return nil
}

// streams are those of a DCI that have failed. When there are most of them, the DCI fails.
type streams struct {
	errored []uint16
	most    int
}

func (s *streams) reset() {
	if s != nil {
		s.errored = nil
	}
}

// done takes note of a request's status. It reports whether the request's stream had failed before, so that the request
// is flushed.
func (s *streams) done(w *fakeverbs.Work, status uint32) (flushed bool) {
	switch {
	case s == nil:
		return false
	case slices.Contains(s.errored, w.Stream):
		return true
	case status != abi.IB_WC_SUCCESS && status != abi.IB_WC_WR_FLUSH_ERR:
		s.errored = append(s.errored, w.Stream)
	}
	return false
}

// streamFlag returns the flag that a DCI with streams is created with.
func (q *QP) streamFlag() uint32 {
	if q.streams == nil {
		return 0
	}
	return abi.MLX5_QP_FLAG_DCI_STREAM
}

// Drop is called after a request has failed. It ends the queue pair, unless it is a DCI of whose streams not too many
// have failed.
func (q *QP) Drop() {
	if s := q.streams; s == nil || len(s.errored) >= s.most {
		q.EnterError()
	}
}

// HasStreams reports whether the queue pair is a DCI with streams.
func (q *QP) HasStreams() bool { return q.streams != nil }

// StreamFailed reports whether a stream of a DCI has failed.
func (q *QP) StreamFailed(stream uint16) bool {
	q.m.k.Lock()
	defer q.m.k.Unlock()
	return q.streams != nil && slices.Contains(q.streams.errored, stream)
}

// createTarget creates a DCT, which has no queues. It has no number yet, and netlink does not list it.
func (m *model) createTarget(q *QP, in *abi.Mlx5IbCreateQp, r *ioctl.Request) error {
	const call = "QP_CREATE"
	q.key = in.SqBufAddr
	const scatter = abi.MLX5_QP_FLAG_SCATTER_CQE | abi.MLX5_QP_FLAG_ALLOW_SCATTER_CQE
	m.wantZero(call, "what a DCT does not need", in.BufAddr|in.DbAddr|uint64(in.SqWqeCount|in.RqWqeCount|in.RqWqeShift|in.BfregIndex|in.Flags&^(roleDCT|scatter)))
	if m.version == 1 {
		m.indexes[q.index] = true
	}
	m.k.Device.Withhold(q.qp)
	q.qp.Untracked = true
	q.qp.SetQueues(q)
	return answer(m, call, r, q.created())
}

// ModifyTarget carries out the change of a DCT that the driver's own table permits, up to the answer. Of it,
// there is nothing but the way from RESET to RTR.
func (m *model) modifyTarget(qp *fakeverbs.QP, in *abi.IbUverbsModifyQp, out []byte, resp *abi.Mlx5IbModifyQpResp) error {
	const (
		rights = abi.IB_QP_STATE | abi.IB_QP_PKEY_INDEX | abi.IB_QP_PORT | abi.IB_QP_ACCESS_FLAGS
		path   = abi.IB_QP_STATE | abi.IB_QP_AV | abi.IB_QP_PATH_MTU | abi.IB_QP_MIN_RNR_TIMER
		number = 8 // bytes of an answer with a number
	)
	switch {
	case in.AttrMask&abi.IB_QP_STATE == 0:
	case qp.CurState == abi.IB_QPS_RESET && in.QpState == abi.IB_QPS_INIT && in.AttrMask == rights:
		if in.QpAccessFlags&abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC != 0 && m.options.NoAtomics {
			return syscall.EOPNOTSUPP
		}
		return nil
	case qp.CurState == abi.IB_QPS_INIT && in.QpState == abi.IB_QPS_RTR && in.AttrMask == path && len(out) >= number:
		m.k.Device.Add(qp)
		resp.Dctn = qp.Num
		return nil
	}
	return syscall.EINVAL
}

// initiatorModifyIsOK is the driver's own table of the changes of a DCI.
func initiatorModifyIsOK(from uint8, in *abi.IbUverbsModifyQp) bool {
	const (
		first = abi.IB_QP_PKEY_INDEX | abi.IB_QP_PORT
		retry = abi.IB_QP_TIMEOUT | abi.IB_QP_RETRY_CNT | abi.IB_QP_RNR_RETRY | abi.IB_QP_MAX_QP_RD_ATOMIC | abi.IB_QP_SQ_PSN
		most  = 16 // READs and atomics
	)
	to := from
	if in.AttrMask&abi.IB_QP_STATE != 0 {
		to = in.QpState
	}
	var must, may uint32
	switch [2]uint8{from, to} {
	case [2]uint8{abi.IB_QPS_RESET, abi.IB_QPS_INIT}:
		must = first
	case [2]uint8{abi.IB_QPS_INIT, abi.IB_QPS_INIT}:
		may = first
	case [2]uint8{abi.IB_QPS_INIT, abi.IB_QPS_RTR}:
		must, may = abi.IB_QP_PATH_MTU, abi.IB_QP_PKEY_INDEX|abi.IB_QP_AV
	case [2]uint8{abi.IB_QPS_RTR, abi.IB_QPS_RTS}:
		must, may = retry, abi.IB_QP_MIN_RNR_TIMER
	case [2]uint8{abi.IB_QPS_RTS, abi.IB_QPS_RTS}:
		may = abi.IB_QP_MIN_RNR_TIMER
	default:
		if to != abi.IB_QPS_RESET && (to != abi.IB_QPS_ERR || from == abi.IB_QPS_RESET) {
			return false
		}
	}
	if in.AttrMask&abi.IB_QP_MAX_QP_RD_ATOMIC != 0 && in.MaxRdAtomic > most {
		return false
	}
	return in.AttrMask&must == must && in.AttrMask&^(must|may|abi.IB_QP_STATE) == 0
}

// CheckQuery refuses queries of a DCT that the driver refuses.
func (m *model) CheckQuery(qp *fakeverbs.QP, mask uint32) error {
	const known = abi.IB_QP_STATE | abi.IB_QP_ACCESS_FLAGS | abi.IB_QP_PORT | abi.IB_QP_MIN_RNR_TIMER | abi.IB_QP_AV | abi.IB_QP_PATH_MTU | abi.IB_QP_PKEY_INDEX
	if q := QPOf(qp); q != nil && q.IsTarget() && (qp.CurState != abi.IB_QPS_RTR || mask&^known != 0) {
		return syscall.EINVAL
	}
	return nil
}

// AdjustQuery leaves what the driver knows of a DCT's address.
func (q *QP) AdjustQuery(resp *abi.IbUverbsQueryQpResp) {
	if q.IsTarget() {
		d := &resp.Dest
		*d = abi.IbUverbsQpDest{FlowLabel: d.FlowLabel, SgidIndex: d.SgidIndex, HopLimit: d.HopLimit, TrafficClass: d.TrafficClass, IsGlobal: d.IsGlobal, PortNum: d.PortNum}
	}
}
