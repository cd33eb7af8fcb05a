package fakeverbs

import "github.com/goverbs/goverbs/internal/abi"

// look does what doorbells of a page may ask for, of CQs or of sends, by the records alone.
func (u *mlx5UAR) look(ofCQs bool) {
	for _, o := range u.m.k.objects {
		switch body := o.body.(type) {
		case *CQ:
			if q := body.MLX5; ofCQs && q != nil && q.uar == u {
				q.look()
			}
		case *QP:
			if q := body.MLX5; !ofCQs && q != nil && q.uar == u {
				q.look()
			}
		}
	}
}

// look arms the CQ if its record says something new. The first arm may leave the record as
// it was made, so a CQ that can have events is taken for armed once. It may then have one
// event that nobody asked for.
func (q *MLX5CQ) look() {
	v := q.m.load(q, q.Num, q.record+4)
	if q.cq.channel != nil && (!q.everArmed || v != q.lastArm) {
		q.arm(v)
	}
}

// look takes the sends that the record tells of.
func (q *MLX5QP) look() {
	rec := q.m.load(q, q.qp.Num, q.record+4)
	n := uint32(uint16(rec - q.told))
	if n == 0 || q.qp.state < abi.IB_QPS_RTS || !q.hasRoom(n) {
		return
	}
	q.takeSends(q.told + n)
	if q.qp.state == abi.IB_QPS_ERR {
		q.fail()
	}
	q.m.k.ring(q.qp)
}
