package rxe

import (
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// Modify moves the QP to another state, with the extra steps that rxe needs.
func (q *qp) Modify(r *driver.ModifyQP) error {
	switch {
	case r.To == verbs.QPStateReset:
		return q.reset(r)
	case r.To == verbs.QPStateSQD:
		q.drain()
	}
	if err := q.do(r); err != nil {
		return err
	}
	if r.From == verbs.QPStateSQD && r.To == verbs.QPStateRTS {
		q.resume()
	}
	return nil
}

func (q *qp) do(r *driver.ModifyQP) error {
	err := r.Do(driver.UHW{})
	if err == nil {
		q.state = r.To
	}
	return err
}

// drain makes the slot after the last send look unused. To find out whether the oldest send
// has begun, kernels newer than 6.1 read its slot even if the queue is empty. An empty
// queue that has wrapped around would then be draining forever, and a draining QP can only
// go to ERR.
func (q *qp) drain() {
	slots, _, _ := q.sq.Room(0)
	slots.At(0).State = 0
}

// resume rings the doorbell for the sends that were posted in SQD; the kernel does not look
// at them otherwise.
func (q *qp) resume() {
	_ = q.doorbell() // refused only when the QP was moved again meanwhile
}

// reset moves the QP to RESET twice. Since Linux 6.2 the kernel records where the send
// queue begins before it empties the queue, so after one RESET the QP would send the old
// entries, which are zeroes by then. At the second RESET the queue is empty.
func (q *qp) reset(r *driver.ModifyQP) error {
	if err := q.do(r); err != nil {
		return err
	}
	return q.do(r)
}
