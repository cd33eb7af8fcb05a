package siw

import (
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// cq is a completion queue. A control word follows the entries: user space writes it to ask
// for an event, and the kernel clears it when it raises one.
type cq struct {
	ring   mmap.FlagConsumer[abi.SiwCqe]
	notify *atomic.Uint32
}

func (*siwContext) CreateCQ(r *driver.CreateCQ) (driver.CQ, error) {
	var resp abi.SiwUrespCreateCq
	if err := r.Do(driver.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	region, err := mapQueue(r, resp.CqKey, resp.NumCqe, cqeSize, ctrlSize)
	if err != nil {
		return nil, err
	}
	r.CQE = resp.NumCqe
	return newCQ(region, resp.NumCqe)
}

func newCQ(region *mmap.Region, n uint32) (*cq, error) {
	ring, err := mmap.NewFlagConsumer[abi.SiwCqe](region, n, ownerWord)
	if err != nil {
		return nil, err
	}
	notify, err := region.Word(int(n) * cqeSize)
	if err != nil {
		return nil, err
	}
	return &cq{ring: *ring, notify: notify}, nil
}

// Peek implements driver.Peeker.
func (q *cq) Peek() *mmap.Peek { return q.ring.Peek() }

func (q *cq) Poll(wcs []verbs.WC) (n int, bad bool, err error) {
	combined := verbs.StatusSuccess
	for n < len(wcs) {
		e := q.ring.At(n)
		word := q.ring.Word(e)
		if word&mmap.Valid == 0 {
			break
		}
		combined |= readCQE(e, word, &wcs[n])
		q.ring.Return(e)
		n++
	}
	q.ring.Release(n)
	return n, combined != verbs.StatusSuccess, nil
}

// readCQE copies an entry out of shared memory and reads each field once. Opcode and status
// come from word, which was loaded with one instruction.
func readCQE(e *abi.SiwCqe, word uint32, wc *verbs.WC) verbs.Status {
	opcode, status := uint8(word>>8), uint16(word>>16)
	*wc = verbs.WC{}
	wc.WRID, wc.ByteLen, wc.QPN = e.Id, e.Bytes, uint32(e.QpId)
	wc.Status, wc.VendorErr = statusOf(status), uint32(status)
	wc.Opcode = opcodeOf(opcode)
	return wc.Status
}

// Arm asks for an event at the next completion of any kind. It refuses solicitedOnly,
// because siw raises no such events for receives.
func (q *cq) Arm(solicitedOnly bool) error {
	if solicitedOnly {
		return errSolicited
	}
	mmap.StoreRelease(q.notify, abi.SIW_NOTIFY_SOLICITED|abi.SIW_NOTIFY_NEXT_COMPLETION)
	return nil
}
