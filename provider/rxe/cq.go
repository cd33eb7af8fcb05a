package rxe

import (
	"fmt"
	"math/bits"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

var (
	errCorrupt = fmt.Errorf("%w: the queue is lost: close the object that it belongs to", mmap.ErrIndex)
	errLost    = fmt.Errorf("%w: the queue was lost when it was resized: close the object that it belongs to", verbs.ErrClosed)
)

// cq is a completion queue. It is armed with a system call.
type cq struct {
	ring   mmap.IndexedConsumer[abi.IbUverbsWc]
	lost   bool // ring is gone
	arm    func(solicitedOnly bool) error
	unbind func(rkey uint32) bool
	region *mmap.Region // of ring
}

func (c *rxeContext) CreateCQ(r *driver.CreateCQ) (driver.CQ, error) {
	var resp abi.RxeCreateCqResp
	if err := r.Do(driver.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	q := &cq{arm: c.device.Notifier(r.Handle), unbind: c.unbind}
	room, err := q.adopt(r, &resp.Mi)
	r.CQE = room
	return q, err
}

// adopt maps the queue that the kernel offers, makes it the one to poll, and returns its
// size.
func (q *cq) adopt(m mapper, mi *abi.Mminfo) (room uint32, err error) {
	memory, err := mapQueue(m, mi)
	if err != nil {
		return 0, err
	}
	ring, err := mmap.NewIndexedConsumer[abi.IbUverbsWc](memory.region, memory.layout)
	if err != nil {
		return 0, err
	}
	q.ring, q.region, q.lost = *ring, memory.region, false
	return memory.room(), nil
}

// Peek implements driver.Peeker.
func (q *cq) Peek() *mmap.Peek { return q.ring.Peek() }

// Poll reads completions. It gives the entries back with one store per batch.
func (q *cq) Poll(wcs []verbs.WC) (n int, bad bool, err error) {
	slots, n := q.ring.Ready(len(wcs))
	if n == 0 {
		return 0, false, q.checkEmpty()
	}
	ready, combined := wcs[:n], uint32(0)
	for i := range ready {
		wc := &ready[i]
		copyCQE(slots.At(i), wc)
		combined |= uint32(wc.Status) | uint32(wc.Flags)
	}
	q.ring.Release(n)
	if combined == 0 {
		return n, false, nil
	}
	return n, q.refine(ready), nil
}

// checkEmpty returns the reason why an empty queue can't be polled, or nil. Inlined, it
// would slow down Poll's loop.
//
//go:noinline
func (q *cq) checkEmpty() error {
	switch {
	case q.lost:
		return errLost
	case q.ring.Err() != nil:
		return errCorrupt
	}
	return nil
}

// refine completes the copies that need it, and reports whether one of them failed.
func (q *cq) refine(wcs []verbs.WC) (bad bool) {
	for i := range wcs {
		if wc := &wcs[i]; uint32(wc.Status)|uint32(wc.Flags) != 0 {
			bad = q.refineOne(wc) || bad
		}
	}
	return bad
}

// refineOne converts a copied entry to a WC, and reports whether it failed. The kernel
// clears an entry before it fills it. Of a failed request it fills in only the WRID and the
// QP, and of a send with immediate data only the flag.
func (q *cq) refineOne(wc *verbs.WC) (bad bool) {
	if wc.Status != verbs.StatusSuccess {
		*wc = verbs.WC{WRID: wc.WRID, Status: wc.Status, VendorErr: wc.VendorErr, QPN: wc.QPN}
		return true
	}
	if wc.Opcode&verbs.WCRecv == 0 {
		*wc = verbs.WC{WRID: wc.WRID, Opcode: wc.Opcode, VendorErr: wc.VendorErr, ByteLen: wc.ByteLen, QPN: wc.QPN}
		return false
	}
	ex, flags := wc.Imm, uint32(wc.Flags)
	wc.Imm, wc.Flags = 0, wc.Flags&verbs.WCGRH
	switch {
	case flags&abi.IB_WC_WITH_IMM != 0:
		wc.Flags |= verbs.WCWithImm
		wc.Imm = bits.ReverseBytes32(ex) // most significant byte first; both platforms are little-endian
	case flags&abi.IB_WC_WITH_INVALIDATE != 0: // another bit than libibverbs's
		wc.Flags |= verbs.WCWithInv
		wc.Imm = ex
		q.unbind(ex)
	}
	return false
}

func (q *cq) Arm(solicitedOnly bool) error { return q.arm(solicitedOnly) }

// Resize replaces the queue by the kernel's new one. The kernel has copied the completions
// that were not polled yet; it knows which were polled, because Poll updates the index
// before it returns.
func (q *cq) Resize(r *driver.ResizeCQ) (err error) {
	var resp abi.RxeResizeCqResp
	if err := r.Do(driver.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return err
	}
	old := q.region
	q.lost = true
	q.ring.Lose()
	if r.CQE, err = q.adopt(r, &resp.Mi); err != nil {
		return err
	}
	return r.Free(old)
}
