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
	if cq == nil {
		return closeNil("CQ")
	}
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
	cq.dev.events.remove(cq.cookie)
	cq.events.End()
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
