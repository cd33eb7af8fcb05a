package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Close destroys the CQ. QPs and SRQs that use it must be closed before. A
// waiter returns ErrClosed.
//
// C: ibv_destroy_cq
func (cq *CQ) Close() error {
	return cq.close(cq.destroy)
}

func (cq *CQ) destroy() error {
	if err := cq.issueDestroy(cq.handle); err != nil {
		return cq.destroyed(err)
	}
	cq.mu.Lock()
	cq.closed = true
	err := cq.memory.free()
	cq.mu.Unlock()
	close(cq.gone)
	cq.unlist()
	if cq.channel != nil {
		cq.channel.reader.kick()
	}
	return err
}

// unlist takes the CQ off the lists of who gets events.
func (cq *CQ) unlist() {
	cq.dev.events.remove(cq.cookie)
	if cq.channel != nil {
		cq.channel.remove(cq)
	}
}

// issueDestroy destroys the kernel's CQ. The answer counts the events that were
// read from the descriptors; none of them can do harm, so nobody waits.
func (cq *CQ) issueDestroy(handle uint32) error {
	var resp abi.IbUverbsDestroyCqResp
	r := cq.dev.request(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY)
	r.Handle(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE, handle)
	ioctl.Out(r, abi.UVERBS_ATTR_DESTROY_CQ_RESP, &resp)
	return r.Do(cq.dev.file)
}

func (cq *CQ) isGone() bool {
	select {
	case <-cq.gone:
		return true
	default:
		return false
	}
}

func (cq *CQ) addQP(qp *QP) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	cq.qps[qp.num] = qp
}

func (cq *CQ) removeQP(qp *QP) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.qps[qp.num] == qp {
		delete(cq.qps, qp.num)
	}
}
