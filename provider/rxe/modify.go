package rxe

import (
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// Modify takes part where the kernel's own part is not enough.
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

// drain makes the slot behind the sends look like one that was never used. To see
// whether the oldest send has begun, kernels newer than 6.1 look at its slot also
// where there is none: a queue that is empty, and has been around once, would be
// draining for ever, and a QP that is can go to ERR only.
func (q *qp) drain() {
	slots, _, _ := q.sq.Room(0)
	slots.At(0).State = 0
}

// resume tells the kernel of the sends that were posted in SQD, at which it does
// not look by itself.
func (q *qp) resume() {
	_ = q.doorbell() // refused only when the QP was moved again meanwhile
}

// reset moves twice. Since Linux 6.2 the kernel notes where the send queue begins
// before it empties the queue: what was on it would be sent, as the zeroes it has
// become, by the QP's next life. The second time there is nothing on it.
func (q *qp) reset(r *driver.ModifyQP) error {
	if err := q.do(r); err != nil {
		return err
	}
	return q.do(r)
}
