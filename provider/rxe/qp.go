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
	sq        *mmap.IndexedProducer[abi.RxeSendWqe]
	rq        *recvQueue
	doorbell  func() error
	bind      func(b *verbs.BindMW, hold bool) error
	binding   verbs.BindMW // the argument of bind
	checked   request      // the request that check accepted
	unbind    func(rkey uint32) bool
	pd        any
	state     verbs.QPState // written with both queues held
	untold    bool          // a doorbell failed
	typ       verbs.QPType
	parts     [len(opcodes)]parts
	caps      verbs.DeviceCap
	maxSGE    int
	maxInline int
	granted   verbs.QPCap // the room in the queues
}

func (c *rxeContext) CreateQP(r *driver.CreateQP) (driver.QP, error) {
	if service(r.Type) == 0 {
		return nil, fmt.Errorf("%w: rxe has RC, UC and UD QPs", verbs.ErrNotSupported)
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
