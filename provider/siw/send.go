package siw

import (
	"runtime"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// PostSend queues sends. It fills entries, publishes them with one store, and rings the
// doorbell unless the kernel is still busy with the queue.
func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	if !q.connected {
		// Before RTS an entry would stay queued until the QP is connected. A doorbell for
		// an empty queue finds out the state with one system call.
		if err := q.doorbell(); err != nil {
			return 0, err
		}
		q.connected = true
	}
	slots, room := q.sq.Room(len(wrs))
	for i := range wrs {
		var e *abi.SiwSqe
		if i < room {
			e = slots.At(i)
		}
		word, err := q.send(e, &wrs[i])
		if err != nil {
			return q.publish(i, err)
		}
		q.sq.Stage(i, e, word)
	}
	return q.publish(len(wrs), nil)
}

// publish publishes the n entries that were staged last, and rings the doorbell if needed.
func (q *qp) publish(n int, err error) (int, error) {
	if q.sq.PublishBehind(n) {
		return n, err
	}
	if q.failed || q.ringDoorbell() != nil {
		return n, driver.ErrQPFailing
	}
	return n, err
}

// ringDoorbell retries when the kernel returns ENOTCONN, which it also does while the QP's
// attributes are changed. A QP that is still not connected after the retries is failing.
func (q *qp) ringDoorbell() (err error) {
	for range doorbellTries {
		if err = q.doorbell(); err == nil {
			return nil
		}
		runtime.Gosched()
	}
	return err
}

const doorbellTries = 8

// send checks wr and fills e, except for its ownership word, which it returns. e is nil
// when the queue is full.
func (q *qp) send(e *abi.SiwSqe, wr *verbs.SendWR) (word uint32, err error) {
	op, flags, sgl, inline := sendOpcode(wr.Opcode), wr.Flags, wr.SGL, wr.Inline // read once: the slice that is checked is used
	switch {
	case inline == nil && op&isPlain != 0 && isOne(sgl, q.maxSGE):
	case inline != nil && op&isInline != 0 && len(sgl) == 0 && len(inline) <= q.maxInline:
	default:
		if err := q.check(wr, op, flags, sgl, inline); err != nil {
			return 0, err
		}
	}
	if e == nil {
		return 0, verbs.ErrQueueFull
	}
	e.Id, e.Raddr, e.Rkey = wr.WRID, wr.RemoteAddr, wr.RKey
	if op&isOpcode == abi.SIW_OP_SEND_REMOTE_INV {
		e.Rkey = wr.InvalidateRKey
	}
	word = q.flags | wireFlags(flags) | uint32(op&isOpcode)<<24
	if inline != nil {
		putInline(&e.Sge, inline)
		return word | abi.SIW_WQE_INLINE | 1<<16, nil
	}
	putSGL(&e.Sge, sgl)
	return word | uint32(len(sgl))<<16, nil
}
