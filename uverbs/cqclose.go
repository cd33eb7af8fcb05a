package uverbs

import (
	"slices"

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

// removeQP forgets a QP that is gone in the kernel, which may give its number to
// another one at once. So that the old one's failed completions do not speak for
// the new one, everything completed until now leaves the ring.
func (cq *CQ) removeQP(qp *QP) {
	cq.mu.Lock()
	if cq.qps[qp.num] == qp {
		delete(cq.qps, qp.num)
	}
	drained := cq.drain()
	cq.mu.Unlock()
	for i := range drained {
		if drained[i].Status != StatusSuccess && drained[i].QPN != qp.num {
			cq.failed(drained[i].QPN)
		}
	}
}

// drain moves completions from the ring to old, no more than the ring can hold.
func (cq *CQ) drain() []WC {
	start := len(cq.old)
	var batch [16]WC
	for len(cq.old) < cq.cqe {
		n, err := cq.ring.Poll(batch[:])
		cq.old = append(cq.old, batch[:n]...)
		if n < len(batch) || err != nil {
			break
		}
	}
	return slices.Clone(cq.old[start:])
}
