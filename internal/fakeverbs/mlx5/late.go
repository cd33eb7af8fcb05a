package mlx5

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// look does what doorbells of a page may ask for, of CQs or of sends, by the records alone.
func (u *uar) look(ofCQs bool) {
	if ofCQs {
		for cq := range fakeverbs.Objects[*fakeverbs.CQ](u.m.k) {
			if q := CQOf(cq); q != nil && q.uar == u {
				q.look()
			}
		}
		return
	}
	for qp := range fakeverbs.Objects[*fakeverbs.QP](u.m.k) {
		if q := QPOf(qp); q != nil && q.uar == u {
			q.look()
		}
	}
}

// look arms the CQ if its record says something new. The first arm may leave the record as
// it was made, so a CQ that can have events is taken for armed once. It may then have one
// event that nobody asked for.
func (q *CQ) look() {
	v := q.m.load(q, q.Num, q.record+4)
	if q.cq.HasChannel() && (!q.everArmed || v != q.lastArm) {
		q.arm(v)
	}
}

// look takes the sends that the record tells of.
func (q *QP) look() {
	rec := q.m.load(q, q.qp.Num, q.record+4)
	n := uint32(uint16(rec - q.told))
	if n == 0 || q.qp.CurState < abi.IB_QPS_RTS || !q.hasRoom(n) {
		return
	}
	q.takeSends(q.told + n)
	if q.qp.CurState == abi.IB_QPS_ERR {
		q.EnterError()
	}
	q.m.k.Ring(q.qp)
}
