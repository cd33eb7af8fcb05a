package netconn

import (
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// batch is how many completions are polled, and how many receives are posted, at once.
const batch = 16

// Receives is the receive queue of a connection. All receives have the same size.
type Receives struct {
	Count int

	qp        *uverbs.QP
	mr        *uverbs.MR
	off, size int // of the first one, in mr
	wrs       [batch]verbs.RecvWR
	sges      [batch]verbs.SGE
}

// Init posts n receives of size bytes each, which start at an offset of mr. If size is 0, mr may be nil.
func (r *Receives) Init(qp *uverbs.QP, n int, mr *uverbs.MR, off, size int) error {
	r.Count, r.qp, r.mr, r.off, r.size = n, qp, mr, off, size
	for slot := 0; slot < n; {
		count := min(batch, n-slot)
		for i := range count {
			r.fill(i, uint64(slot+i))
		}
		if err := r.post(count); err != nil {
			return err
		}
		slot += count
	}
	return nil
}

// Bytes returns the memory of a receive.
func (r *Receives) Bytes(slot uint64) []byte { return r.mr.Bytes()[r.off+int(slot)*r.size:][:r.size] }

// fill sets entry i of the batch.
func (r *Receives) fill(i int, slot uint64) {
	r.wrs[i] = verbs.RecvWR{WRID: slot}
	if r.size > 0 {
		r.sges[i] = r.mr.SGE(r.off+int(slot)*r.size, r.size)
		r.wrs[i].SGL = r.sges[i : i+1]
	}
}

// post posts the first n entries of the batch.
func (r *Receives) post(n int) error {
	if n == 0 {
		return nil
	}
	_, err := r.qp.PostRecv(r.wrs[:n])
	return err
}
