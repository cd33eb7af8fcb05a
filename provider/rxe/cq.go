package rxe

import (
	"fmt"
	"math/bits"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
)

var (
	errCorrupt = fmt.Errorf("%w: the queue is lost, close what it belongs to", mmap.ErrIndex)
	errLost    = fmt.Errorf("%w: the queue was lost when it was resized, close what it belongs to", uverbs.ErrClosed)
)

// cq reads completions and is armed with a system call.
type cq struct {
	ring    mmap.IndexedConsumer[abi.IbUverbsWc]
	lost    bool // ring is gone
	arm     *uverbs.Notifier
	windows interface{ Unbind(rkey uint32) bool }
}

func (*rxeContext) CreateCQ(r *uverbs.CQRequest) (uverbs.CQRing, error) {
	var resp abi.RxeCreateCqResp
	if err := r.Create(uverbs.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	q := &cq{arm: r.Notifier(), windows: r}
	return q, q.adopt(r, &resp.Mi)
}

// adopt makes the queue that the kernel offers the one to poll.
func (q *cq) adopt(r *uverbs.CQRequest, mi *abi.Mminfo) error {
	memory, err := mapQueue(r, mi)
	if err != nil {
		return err
	}
	ring, err := mmap.NewIndexedConsumer[abi.IbUverbsWc](memory.region, memory.layout)
	if err != nil {
		return err
	}
	q.ring, q.lost = *ring, false
	r.CQE = memory.room()
	return nil
}

// Poll gives the entries back with one store a batch.
func (q *cq) Poll(wcs []uverbs.WC) (n int, bad bool, err error) {
	if q.lost {
		return 0, false, errLost
	}
	slots, n, err := q.ring.Ready(len(wcs))
	if n == 0 {
		if err != nil {
			err = errCorrupt
		}
		return 0, false, err
	}
	ready, odd := wcs[:n], uint32(0)
	for i := range ready {
		wc := &ready[i]
		copyCQE(slots.At(i), wc)
		odd |= uint32(wc.Status) | uint32(wc.Flags)
	}
	q.ring.Release(n)
	if odd != 0 {
		bad = q.refine(ready)
	}
	return n, bad, nil
}

// refine looks at copies of which some need it, and tells whether one is bad.
func (q *cq) refine(wcs []uverbs.WC) (bad bool) {
	for i := range wcs {
		if wc := &wcs[i]; uint32(wc.Status)|uint32(wc.Flags) != 0 {
			bad = q.refineOne(wc) || bad
		}
	}
	return bad
}

// refineOne makes what was copied mean what it says, and tells whether it is bad. The
// kernel clears an entry before it fills it, but says of a failed one only whose it
// is, and of a send that had immediate data only that it had.
func (q *cq) refineOne(wc *uverbs.WC) (bad bool) {
	if wc.Status != uverbs.StatusSuccess {
		*wc = uverbs.WC{WRID: wc.WRID, Status: wc.Status, VendorErr: wc.VendorErr, QPN: wc.QPN}
		return true
	}
	if wc.Opcode&uverbs.WCRecv == 0 {
		*wc = uverbs.WC{WRID: wc.WRID, Opcode: wc.Opcode, VendorErr: wc.VendorErr, ByteLen: wc.ByteLen, QPN: wc.QPN}
		return false
	}
	ex, flags := wc.Imm, uint32(wc.Flags)
	wc.Imm, wc.Flags = 0, wc.Flags&uverbs.WCGRH
	switch {
	case flags&abi.IB_WC_WITH_IMM != 0:
		wc.Flags |= uverbs.WCWithImm
		wc.Imm = bits.ReverseBytes32(ex) // most significant byte first; both platforms are little-endian
	case flags&abi.IB_WC_WITH_INVALIDATE != 0: // another bit than libibverbs's
		wc.Flags |= uverbs.WCWithInv
		wc.Imm = ex
		q.windows.Unbind(ex)
	}
	return false
}

func (q *cq) Arm(solicitedOnly bool) error { return q.arm.Arm(solicitedOnly) }

// Resize goes over to the kernel's new queue, into which the kernel has copied
// what was not polled yet; the kernel knows what was, for Poll tells it before it
// returns.
func (q *cq) Resize(r *uverbs.CQRequest) error {
	var resp abi.RxeResizeCqResp
	if err := r.Create(uverbs.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return err
	}
	q.lost = true
	return q.adopt(r, &resp.Mi)
}
