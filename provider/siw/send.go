package siw

import (
	"fmt"
	"runtime"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

// PostSend fills entries, hands them to the kernel with one store, and rings the
// doorbell unless the kernel is still at work.
func (q *qp) PostSend(wrs []uverbs.SendWR) (int, error) {
	if q.failed {
		return q.flushSends(wrs)
	}
	if !q.connected {
		// Before RTS an entry would lie in wait for the connection. An empty
		// doorbell asks for the state at the price of one system call.
		if err := q.doorbell.Ring(); err != nil {
			return 0, err
		}
		q.connected = true
	}
	for i := range wrs {
		if err := q.send(&wrs[i]); err != nil {
			return q.publish(i, err)
		}
	}
	return q.publish(len(wrs), nil)
}

// publish hands the n entries just staged to the kernel.
func (q *qp) publish(n int, err error) (int, error) {
	if q.sq.PublishBehind() {
		return n, err
	}
	if q.ringOut() != nil {
		return n, uverbs.ErrQPFailing
	}
	return n, err
}

// ringOut rings again when the kernel says ENOTCONN, which it also does while
// somebody changes the QP's attributes. One that is still not there after that
// is on its way out.
func (q *qp) ringOut() (err error) {
	for range doorbellTries {
		if err = q.doorbell.Ring(); err == nil {
			return nil
		}
		runtime.Gosched()
	}
	return err
}

const doorbellTries = 8

func (q *qp) send(wr *uverbs.SendWR) error {
	op, err := q.check(wr)
	if err != nil {
		return err
	}
	e := q.sq.Next()
	if e == nil {
		return uverbs.ErrQueueFull
	}
	e.Id = wr.WRID
	e.Raddr = wr.RemoteAddr
	e.Rkey = wr.RKey
	if wr.Opcode == uverbs.OpSendWithInv {
		e.Rkey = wr.InvalidateRKey
	}
	flags, n := q.flags(wr), len(wr.SGL)
	if wr.Inline != nil {
		// The data starts at the second SGE; the first tells its length.
		e.Sge[0] = abi.SiwSge{Length: uint32(len(wr.Inline))}
		copy(abi.Bytes(&e.Sge)[inlineOffset:], wr.Inline)
		flags, n = flags|abi.SIW_WQE_INLINE, 1
	} else {
		for i := range wr.SGL {
			e.Sge[i] = sgeOf(&wr.SGL[i])
		}
	}
	q.sq.Stage(flags | uint32(n)<<16 | uint32(op)<<24)
	return nil
}

const inlineOffset = 16

func sgeOf(s *uverbs.SGE) abi.SiwSge {
	return abi.SiwSge{Laddr: s.Addr, Length: s.Length, Lkey: s.LKey}
}

func (q *qp) flags(wr *uverbs.SendWR) uint32 {
	flags := uint32(abi.SIW_WQE_VALID)
	if q.signalAll || wr.Flags&uverbs.SendSignaled != 0 {
		flags |= abi.SIW_WQE_SIGNALLED
	}
	if wr.Flags&uverbs.SendSolicited != 0 {
		flags |= abi.SIW_WQE_SOLICITED
	}
	if wr.Flags&uverbs.SendFence != 0 {
		flags |= abi.SIW_WQE_READ_FENCE
	}
	return flags
}

// check refuses what the kernel would only answer with a dead connection.
func (q *qp) check(wr *uverbs.SendWR) (op uint8, err error) {
	op, ok := sendOpcode(wr.Opcode)
	isRead := op == abi.SIW_OP_READ || op == abi.SIW_OP_READ_LOCAL_INV
	switch {
	case !ok:
		return 0, fmt.Errorf("%w: siw has no %v", uverbs.ErrNotSupported, wr.Opcode)
	case len(wr.SGL) > q.maxSGE:
		return 0, fmt.Errorf("%w: %d SGEs, the QP takes %d", uverbs.ErrInvalidWR, len(wr.SGL), q.maxSGE)
	case isRead && (len(wr.SGL) != 1 || wr.Inline != nil):
		return 0, fmt.Errorf("%w: a read on siw takes exactly one SGE", uverbs.ErrInvalidWR)
	case isRead && wr.Flags&uverbs.SendFence != 0:
		return 0, fmt.Errorf("%w: siw can't fence a read", uverbs.ErrInvalidWR)
	case wr.Inline == nil:
		return op, nil
	case op == abi.SIW_OP_SEND_REMOTE_INV:
		return 0, fmt.Errorf("%w: siw takes inline data for SEND and RDMA_WRITE only", uverbs.ErrInvalidWR)
	case len(wr.SGL) > 0:
		return 0, fmt.Errorf("%w: both SGL and Inline are set", uverbs.ErrInvalidWR)
	case len(wr.Inline) > q.maxInline:
		return 0, fmt.Errorf("%w: %d bytes inline, siw takes %d", uverbs.ErrInvalidWR, len(wr.Inline), q.maxInline)
	}
	return op, nil
}

func sendOpcode(op uverbs.Opcode) (uint8, bool) {
	switch op {
	case uverbs.OpSend:
		return abi.SIW_OP_SEND, true
	case uverbs.OpSendWithInv:
		return abi.SIW_OP_SEND_REMOTE_INV, true
	case uverbs.OpRDMAWrite:
		return abi.SIW_OP_WRITE, true
	case uverbs.OpRDMARead:
		return abi.SIW_OP_READ, true
	case uverbs.OpReadWithInv:
		return abi.SIW_OP_READ_LOCAL_INV, true
	}
	return 0, false
}
