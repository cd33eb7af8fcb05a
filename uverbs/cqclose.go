package uverbs

import (
	"sync"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Close destroys the CQ. QPs and SRQs that use it must be closed before. A
// waiter returns ErrClosed.
//
// C: ibv_destroy_cq
func (cq *CQ) Close() error {
	return cq.close(cq.destroy, cq.release)
}

// destroy keeps Arm from naming a CQ that is gone to the kernel.
func (cq *CQ) destroy() error {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	err := destroy(cq.ring, func() error { return cq.issueDestroy(cq.handle) })
	cq.closed = err == nil
	cq.setOdd()
	return err
}

func (cq *CQ) release() error {
	cq.mu.Lock()
	err := cq.memory.free()
	cq.mu.Unlock()
	close(cq.gone)
	cq.dev.events.remove(cq.cookie)
	if cq.channel != nil {
		cq.channel.remove(cq)
		cq.channel.reader.kick()
	}
	return err
}

// issueDestroy destroys the kernel's CQ. The answer counts the events that were
// read from the descriptors; none of them can do harm, so nobody waits.
func (cq *CQ) issueDestroy(handle uint32) error {
	var resp abi.IbUverbsDestroyCqResp
	r := cq.dev.request(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY)
	defer r.Free()
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

// addQP makes qp the one that completions with its number speak of. The kernel
// gives the numbers of destroyed QPs to new ones at once, so what the ring holds
// by now, before qp had any work, is another one's and leaves the ring first.
func (cq *CQ) addQP(qp *QP) {
	cq.mu.Lock()
	delete(cq.qps, qp.num)
	failed := cq.drain()
	if cq.qps == nil {
		cq.qps = make(map[uint32]*QP)
	}
	cq.qps[qp.num] = qp
	cq.mu.Unlock()
	tell(failed)
}

// settle takes off the ring what tells of QPs as they are by now.
func (cq *CQ) settle() []failure {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return cq.drain()
}

func (cq *CQ) removeQP(qp *QP) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.qps[qp.num] == qp {
		delete(cq.qps, qp.num)
	}
}

// batches are for drain, which every new QP needs twice.
var batches = sync.Pool{New: func() any { return new([16]WC) }}

// drain moves completions from the ring to old, no more than the ring can hold,
// and tells whose failed.
func (cq *CQ) drain() (failed []failure) {
	batch := batches.Get().(*[16]WC)
	defer batches.Put(batch)
	for all := 0; all < cq.cqe; all += len(batch) {
		n, _, err := cq.ring.Poll(batch[:])
		cq.old = append(cq.old, batch[:n]...)
		failed = append(failed, cq.failures(batch[:n])...)
		if n < len(batch) || err != nil {
			break
		}
	}
	cq.setOdd()
	return failed
}

// failures finds the QPs of completions that were no success. It is called with
// the lock held that the completions were taken under, for the numbers may be
// other QPs' later.
func (cq *CQ) failures(wcs []WC) (failed []failure) {
	for i := range wcs {
		if wcs[i].Status != StatusSuccess {
			if qp := cq.qps[wcs[i].QPN]; qp != nil {
				failed = append(failed, failure{qp, qp.life.Load()})
			}
		}
	}
	return failed
}
