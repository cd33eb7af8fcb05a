package uverbs

import (
	"errors"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// Close destroys the QP, which must have left its multicast groups. Completions
// that it left on its CQs may still be polled, unless the provider removes them, as
// providers of hardware do.
//
// C: ibv_destroy_qp
func (qp *QP) Close() error {
	if qp == nil {
		return closeNil("QP")
	}
	err := qp.close(qp.destroy, qp.release)
	var e *Error
	if qp.typ == verbs.QPTypeUD && errors.Is(err, syscall.EBUSY) && errors.As(err, &e) {
		e.Hint = "it is attached to a multicast group: DetachMcast first"
	}
	return err
}

func (qp *QP) destroy() error {
	qp.shut(true)
	l := leaving{qp: qp}
	err := destroy(qp.ring, func() error {
		err := qp.issueDestroy(qp.handle)
		if err == nil {
			l.begin()
		}
		return err
	})
	if err != nil {
		qp.shut(false)
		return err
	}
	for _, cq := range qp.cqs() {
		cq.removeQP(qp)
	}
	l.end()
	tell(l.failures)
	return nil
}

func (qp *QP) release() error {
	qp.dev.events.remove(qp.cookie)
	return qp.memory.free()
}

// shut keeps posts off the queues that are about to be unmapped.
func (qp *QP) shut(closed bool) {
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	qp.closed = closed
	qp.setOdd()
}

func (qp *QP) issueDestroy(handle uint32) error {
	var resp abi.IbUverbsDestroyQpResp
	r := qp.dev.request(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_QP_HANDLE, handle)
	ioctl.Out(r, abi.UVERBS_ATTR_DESTROY_QP_RESP, &resp)
	return r.Do(qp.dev.file)
}
