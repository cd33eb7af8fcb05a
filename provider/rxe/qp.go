package rxe

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// qp holds a QP's two queues. The receive queue is nil if the QP uses an SRQ.
type qp struct {
	sq             *mmap.IndexedProducer[abi.RxeSendWqe]
	rq             *recvQueue
	doorbell       func() error
	bind           func(b *verbs.BindMW, hold bool) error
	binding        verbs.BindMW // the argument of bind
	checked        request      // the request that check accepted
	unbind         func(rkey uint32) bool
	pd             any
	state          verbs.QPState // written with both queues held
	doorbellFailed bool          // a doorbell failed
	typ            verbs.QPType
	parts          [len(opcodes)]parts
	caps           verbs.DeviceCap
	maxSGE         int
	maxInline      int
	granted        verbs.QPCap // the room in the queues
}

func (c *rxeContext) CreateQP(r *driver.CreateQP) (driver.QP, error) {
	if service(r.Type) == 0 {
		return nil, fmt.Errorf("%w: rxe supports only RC, UC and UD QPs", verbs.ErrNotSupported)
	}
	// With 0 SGEs the kernel would leave no room for inline data either.
	r.Cap.MaxSendSGE = max(r.Cap.MaxSendSGE, 1)
	var resp abi.RxeCreateQpResp
	if err := r.Do(driver.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	q := &qp{doorbell: c.device.Doorbell(r.Handle), bind: r.Bind, unbind: c.unbind, pd: r.PD,
		typ: r.Type, caps: c.caps, parts: partsOf(r.Type, c.caps)}
	if err := q.mapSend(r, &resp.SqMi); err != nil {
		return nil, err
	}
	if r.SRQ == nil {
		if err := q.mapRecv(r, &resp.RqMi); err != nil {
			return nil, err
		}
	}
	q.granted = r.Cap
	return q, nil
}

// mapSend maps the send queue. It takes the depth from the queue's header: Linux 6.1
// returns the depth that was requested, though the queue has more.
func (q *qp) mapSend(r *driver.CreateQP, mi *abi.Mminfo) error {
	memory, err := mapQueue(r, mi)
	if err != nil {
		return err
	}
	payload := max(uint64(r.Cap.MaxSendSGE)*sgeSize, uint64(r.Cap.MaxInline))
	if err := memory.fits(sendWQESize + payload); err != nil {
		return err
	}
	q.sq, err = mmap.NewIndexedProducer[abi.RxeSendWqe](memory.region, memory.layout)
	r.Cap.MaxSendWR = memory.room()
	q.maxSGE, q.maxInline = int(r.Cap.MaxSendSGE), int(r.Cap.MaxInline)
	return err
}

func (q *qp) mapRecv(r *driver.CreateQP, mi *abi.Mminfo) error {
	memory, err := mapQueue(r, mi)
	if err != nil {
		return err
	}
	q.rq, err = newRecvQueue(memory, r.Cap.MaxRecvSGE)
	r.Cap.MaxRecvWR = memory.room()
	return err
}

var errNoRecvQueue = fmt.Errorf("%w: the QP uses an SRQ", verbs.ErrInvalidWR)

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

// PostRecv queues receives. It rings no doorbell: the kernel reads the queue when a packet
// arrives. It refuses receives in RESET, because the kernel would discard them.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	switch {
	case q.rq == nil:
		return 0, errNoRecvQueue
	case q.state == verbs.QPStateReset:
		return 0, errReset
	}
	return q.rq.post(wrs)
}

// FlushedByErr reports whether the QP has its own receive queue. The kernel flushes
// receives only when the QP is moved to ERR, also from ERR. It flushes sends at every
// doorbell.
//
// With an SRQ there is nothing to flush. A failed completion does not even mean that the QP
// failed: a UC or UD QP survives a message that was too long for the receive that the SRQ
// supplied.
func (q *qp) FlushedByErr() bool { return q.rq != nil }

// Idle reports whether both queues are empty. The kernel empties them asynchronously.
func (q *qp) Idle() bool {
	return isEmpty(q.sq, q.granted.MaxSendWR) && (q.rq == nil || isEmpty(q.rq.ring, q.granted.MaxRecvWR))
}

// isEmpty reports whether a queue is empty. A queue whose kernel index is out of range
// counts as empty, because nothing more can complete.
func isEmpty[T any](ring *mmap.IndexedProducer[T], entries uint32) bool {
	_, room, err := ring.Room(int(entries))
	return err != nil || room == int(entries)
}
