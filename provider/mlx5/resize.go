package mlx5

import (
	"errors"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
)

var errNoMarker = errors.New("mlx5: the old queue of a CQ that was resized does not end, close the CQ")

// Resize replaces the queue by a new one. The kernel writes a marker into the old queue,
// after all entries of the device. The device counts the marker as an entry, so the entries
// before it move one slot further in the new queue.
func (q *cq) Resize(r *driver.ResizeCQ) error {
	if q.lost {
		return errLost
	}
	next := cq{step: q.step}
	if err := next.alloc(r, r.CQE); err != nil {
		return err
	}
	req := abi.Mlx5IbResizeCq{BufAddr: next.region.Addr(), CqeSize: uint16(q.ctx.tuning.cqeSize)}
	r.CQE = next.entries - 1
	if err := r.Do(driver.UHW{In: abi.Bytes(&req)}); err != nil {
		return err
	}
	r.CQE = next.entries - 1
	if !q.moveTo(&next) {
		q.lost = true
		q.peek.Hide()
		return errNoMarker
	}
	old := q.region
	q.region, q.ring, q.entries = next.region, next.ring, next.entries
	q.ci++
	q.consumed()
	return r.Free(old)
}

// moveTo copies the entries up to the marker. It reports whether there is one.
func (q *cq) moveTo(next *cq) bool {
	for i := q.ci; i-q.ci < q.entries; i++ {
		from := q.at(i)
		last := from.counterOwn.Load()
		if !q.owned(last, i) {
			return false
		}
		if last>>cqeOpShift == cqeResize {
			return true
		}
		to := next.at(i + 1)
		q.copyEntry(next, i+1, i)
		last &^= cqeOwner
		if (i+1)&next.entries != 0 {
			last |= cqeOwner
		}
		to.counterOwn.Store(last)
	}
	return false
}
