package siw

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// qp holds a QP's two queues. The receive queue is nil if the QP uses an SRQ.
type qp struct {
	sq        *mmap.FlagProducer[abi.SiwSqe]
	rq        *recvQueue
	doorbell  func() error
	num       uint32
	maxSGE    int
	maxInline int
	flags     uint32 // of every send
	connected bool   // the kernel once accepted a doorbell, so the QP has been in RTS; also set when the QP failed
	failed    bool   // the kernel takes no more work; written with both queues held
}

func (c *siwContext) CreateQP(r *driver.CreateQP) (driver.QP, error) {
	r.Cap.MaxSendWR = max(r.Cap.MaxSendWR, 1) // siw has no QP without a send queue
	var resp abi.SiwUrespCreateQp
	if err := r.Do(driver.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	q := &qp{doorbell: c.device.Doorbell(r.Handle), num: r.Num, flags: abi.SIW_WQE_VALID}
	if r.SignalAll {
		q.flags |= abi.SIW_WQE_SIGNALLED
	}
	if err := q.mapSend(r, &resp); err != nil {
		return nil, err
	}
	if r.SRQ == nil && resp.NumRqe > 0 {
		if err := q.mapRecv(r, &resp); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// CleanQuery resets the attributes that siw_query_qp leaves as they were in the kernel's memory.
func (q *qp) CleanQuery(a *verbs.QPAttr) {
	*a = verbs.QPAttr{State: a.State, CurState: a.State, PathMTU: a.PathMTU, Access: a.Access,
		MaxRDAtomic: a.MaxRDAtomic, MaxDestRDAtomic: a.MaxDestRDAtomic, Cap: a.Cap}
}

func (q *qp) mapSend(r *driver.CreateQP, resp *abi.SiwUrespCreateQp) error {
	region, err := mapQueue(r, resp.SqKey, resp.NumSqe, sqeSize, 0)
	if err != nil {
		return err
	}
	q.sq, err = mmap.NewFlagProducer[abi.SiwSqe](region, resp.NumSqe, ownerWord)
	r.Cap.MaxSendWR = resp.NumSqe
	r.Cap.MaxSendSGE = min(r.Cap.MaxSendSGE, abi.SIW_MAX_SGE)
	r.Cap.MaxInline = abi.SIW_MAX_INLINE
	q.maxSGE, q.maxInline = int(r.Cap.MaxSendSGE), int(r.Cap.MaxInline)
	return err
}

func (q *qp) mapRecv(r *driver.CreateQP, resp *abi.SiwUrespCreateQp) error {
	region, err := mapQueue(r, resp.RqKey, resp.NumRqe, rqeSize, 0)
	if err != nil {
		return err
	}
	r.Cap.MaxRecvWR = resp.NumRqe
	r.Cap.MaxRecvSGE = min(r.Cap.MaxRecvSGE, abi.SIW_MAX_SGE)
	q.rq, err = newRecvQueue(region, resp.NumRqe, r.Cap.MaxRecvSGE)
	return err
}

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

// The elements of sendOpcodes: siw's number of an opcode, and at least one of these bits.
const (
	isOpcode = 0x0f
	isInline = 0x20 // takes inline data
	isPlain  = 0x40 // takes an SGL, with no special rules
	isRead   = 0x80
)

var sendOpcodes = [...]uint8{
	verbs.OpSend:        isPlain | isInline | abi.SIW_OP_SEND,
	verbs.OpSendWithInv: isPlain | abi.SIW_OP_SEND_REMOTE_INV,
	verbs.OpRDMAWrite:   isPlain | isInline | abi.SIW_OP_WRITE,
	verbs.OpRDMARead:    isRead | abi.SIW_OP_READ,
	verbs.OpReadWithInv: isRead | abi.SIW_OP_READ_LOCAL_INV,
}

// sendOpcode returns an opcode's element of sendOpcodes, or 0 if siw does not support it.
func sendOpcode(op verbs.Opcode) uint8 {
	if int64(op) < int64(len(sendOpcodes)) {
		return sendOpcodes[op]
	}
	return 0
}

// Supports implements driver.Supporter.
func (*siwContext) Supports(t verbs.QPType, op verbs.Opcode) bool {
	return t == verbs.QPTypeRC && sendOpcode(op) != 0
}

// wireFlags converts a send's flags to siw's. Each of siw's bits is a multiple of verbs's,
// so the conversion needs no branches. Other flags have no meaning to siw.
func wireFlags(f verbs.SendFlags) uint32 {
	return uint32(f&verbs.SendSignaled)*(abi.SIW_WQE_SIGNALLED/uint32(verbs.SendSignaled)) |
		uint32(f&verbs.SendSolicited)*(abi.SIW_WQE_SOLICITED/uint32(verbs.SendSolicited)) |
		uint32(f&verbs.SendFence)*(abi.SIW_WQE_READ_FENCE/uint32(verbs.SendFence))
}

// check returns an error for a request that the kernel would answer by ending the
// connection.
func (q *qp) check(wr *verbs.SendWR, op uint8, flags verbs.SendFlags, sgl []verbs.SGE, inline []byte) error {
	if op == 0 {
		return fmt.Errorf("%w: siw does not support %v", verbs.ErrNotSupported, wr.Opcode)
	}
	length, err := driver.SumSGL(sgl, q.maxSGE)
	switch {
	case err != nil:
		return err
	case length > maxMessage:
		return fmt.Errorf("%w: %d bytes in all, but siw sends at most %d", verbs.ErrInvalidWR, length, maxMessage)
	case op&isRead != 0 && (len(sgl) != 1 || inline != nil):
		return fmt.Errorf("%w: a read on siw takes exactly one SGE", verbs.ErrInvalidWR)
	case op&isRead != 0 && flags&verbs.SendFence != 0:
		return fmt.Errorf("%w: siw can't fence a read", verbs.ErrInvalidWR)
	case inline == nil:
		return nil
	case op&isInline == 0:
		return fmt.Errorf("%w: siw takes inline data for SEND and RDMA_WRITE only", verbs.ErrInvalidWR)
	case len(sgl) > 0:
		return fmt.Errorf("%w: both SGL and Inline are set", verbs.ErrInvalidWR)
	case len(inline) > q.maxInline:
		return fmt.Errorf("%w: %d bytes inline, but siw takes at most %d (send more from registered memory, with SGL)", verbs.ErrInvalidWR, len(inline), q.maxInline)
	}
	return nil
}

// Flush completes the work requests that the kernel does not. siw flushes its queues when a
// QP enters ERR and never looks at them again, so Flush takes back the work requests that
// were posted later. A failed QP stays failed: siw can't reuse it.
//
// The move to ERR returns after the kernel's flush, so the kernel no longer reads the queues
// here. There is one exception: the kernel flushes a QP that its user had moved to SQD or SQE once
// more, later. If Flush takes an entry back at that moment, the entry completes twice.
func (q *qp) Flush() (f driver.Flushed) {
	q.failed, q.connected = true, true // so that posts ring no doorbell
	for e, word := range q.sq.Retract {
		f.Send = append(f.Send, q.flushed(e.Id, opcodeOf(uint8(word>>24))))
	}
	if q.rq == nil {
		return f
	}
	for e := range q.rq.ring.Retract {
		f.Recv = append(f.Recv, q.flushed(e.Id, verbs.WCRecv))
	}
	return f
}

func (q *qp) flushed(wrID uint64, op verbs.WCOpcode) verbs.WC {
	return verbs.WC{WRID: wrID, Opcode: op, QPN: q.num, Status: verbs.StatusWRFlushErr}
}

// PostRecv queues receives. It rings no doorbell: the kernel reads the queue when data
// arrives.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	switch {
	case q.rq == nil:
		return 0, errNoRecvQueue
	case q.failed:
		n, err := q.rq.post(wrs)
		return n, cmp.Or(err, driver.ErrQPFailing)
	}
	return q.rq.post(wrs)
}

// RecvEmpty implements driver.RecvEmptier.
func (q *qp) RecvEmpty() bool { return q.rq == nil || q.rq.ring.Empty() }

// Idle implements driver.Idler. All work requests have completed when Flush returns.
func (q *qp) Idle() bool { return q.failed }
