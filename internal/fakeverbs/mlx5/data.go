package mlx5

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// Data of a short message, or of a READ, may come in its completion, if the queue pair was made so: up to
// mlx5CQEData bytes in the completion's first half, or up to mlx5LongCQEData in front of a
// completion that is the second half of an entry of 128 bytes.
const (
	cqeData     = 32
	longCQEData = 64

	dataInside = 1 << 2 // in the last byte
	dataBefore = 1 << 3
)

// Keeps reports whether short messages may come in completions.
func (q *QP) Keeps() bool { return q.scatters }

// RecvEntries is how many receives the provider made room for.
func (q *QP) RecvEntries() uint32 { return q.rq.entries }

// Keep takes the data of a SEND that comes with the completion, if it does so. The receive
// stays as it is: user space copies the data there.
func (q *QP) Keep(r *fakeverbs.Recv, data []byte) bool {
	if q.qp.Type == abi.IB_UVERBS_QPT_UD || !CQOf(q.qp.RecvCQ).holds(data) {
		return false
	}
	r.Data = data
	return true
}

// KeepFetched is Keep for READs and atomics, which want every send of the queue pair to
// complete.
func (q *QP) KeepFetched(w *fakeverbs.Work, data []byte) bool {
	if q.qp.Type != abi.IB_UVERBS_QPT_RC || q.qp.Flags&abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL == 0 || !CQOf(q.qp.SendCQ).holds(data) {
		return false
	}
	w.Data = data
	return true
}

// holds tells that a completion has room for data, and that there is any.
func (q *CQ) holds(data []byte) bool {
	most := cqeData
	if q.size == 128 {
		most = longCQEData
	}
	return len(data) > 0 && len(data) <= most
}

// putData puts the data of a message into a completion, or in front of it.
func (q *CQ) putData(b *[64]byte, data []byte) {
	switch {
	case len(data) == 0:
	case len(data) <= cqeData:
		copy(b[:], data)
		b[63] |= dataInside
	default:
		_ = q.m.k.User.Write(q.address(q.pi)-longCQEData, data)
		b[63] |= dataBefore
	}
}
