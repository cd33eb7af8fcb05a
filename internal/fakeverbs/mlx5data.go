package fakeverbs

import "github.com/goverbs/goverbs/internal/abi"

// Data of a short message, or of a READ, may come in its completion, if the queue pair was made so: up to
// mlx5CQEData bytes in the completion's first half, or up to mlx5LongCQEData in front of a
// completion that is the second half of an entry of 128 bytes.
const (
	mlx5CQEData     = 32
	mlx5LongCQEData = 64

	mlx5DataInside = 1 << 2 // in the last byte
	mlx5DataBefore = 1 << 3
)

// keep takes the data of a SEND that comes with the completion, if it does so. The receive
// stays as it is: user space copies the data there.
func (q *MLX5QP) keep(r *Recv, data []byte) bool {
	if q.qp.Type == abi.IB_UVERBS_QPT_UD || !q.qp.RecvCQ.MLX5.holds(data) {
		return false
	}
	r.data = data
	return true
}

// keepFetched is keep for READs and atomics, which want every send of the queue pair to
// complete.
func (q *MLX5QP) keepFetched(w *Work, data []byte) bool {
	if q.qp.Type != abi.IB_UVERBS_QPT_RC || q.qp.Flags&abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL == 0 || !q.qp.SendCQ.MLX5.holds(data) {
		return false
	}
	w.data = data
	return true
}

// holds tells that a completion has room for data, and that there is any.
func (q *MLX5CQ) holds(data []byte) bool {
	most := mlx5CQEData
	if q.size == 128 {
		most = mlx5LongCQEData
	}
	return len(data) > 0 && len(data) <= most
}

// putData puts the data of a message into a completion, or in front of it.
func (q *MLX5CQ) putData(b *[64]byte, data []byte) {
	switch {
	case len(data) == 0:
	case len(data) <= mlx5CQEData:
		copy(b[:], data)
		b[63] |= mlx5DataInside
	default:
		_ = q.m.k.User.Write(q.address(q.pi)-mlx5LongCQEData, data)
		b[63] |= mlx5DataBefore
	}
}
