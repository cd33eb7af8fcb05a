package siw

import (
	"runtime"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// PostSend fills entries, hands them to the kernel with one store, and rings the
// doorbell unless the kernel is still at work.
func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	if !q.connected {
		// Before RTS an entry would lie in wait for the connection. An empty
		// doorbell asks for the state at the price of one system call.
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

// publish hands the n entries just staged to the kernel.
func (q *qp) publish(n int, err error) (int, error) {
	if q.sq.PublishBehind(n) {
		return n, err
	}
	if q.failed || q.ringOut() != nil {
		return n, driver.ErrQPFailing
	}
	return n, err
}

// ringOut rings again when the kernel says ENOTCONN, which it also does while
// somebody changes the QP's attributes. One that is still not there after that
// is on its way out.
func (q *qp) ringOut() (err error) {
	for range doorbellTries {
		if err = q.doorbell(); err == nil {
			return nil
		}
		runtime.Gosched()
	}
	return err
}

const doorbellTries = 8

// send fills e, which is nil when the queue is full, but for the word that hands it
// over.
func (q *qp) send(e *abi.SiwSqe, wr *verbs.SendWR) (word uint32, err error) {
	op, flags, sgl, inline := sendOpcode(wr.Opcode), wr.Flags, wr.SGL, wr.Inline // what is checked is what is used
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
