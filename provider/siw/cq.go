package siw

import (
	"fmt"
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

// Arm requests an event at the next completion of any kind. It refuses solicitedOnly,
// because siw raises no such events for receives.
func (q *cq) Arm(solicitedOnly bool) error {
	if solicitedOnly {
		return errSolicited
	}
	mmap.StoreRelease(q.notify, abi.SIW_NOTIFY_SOLICITED|abi.SIW_NOTIFY_NEXT_COMPLETION)
	return nil
}

var errSolicited = fmt.Errorf("%w: siw raises no solicited-only events for receives; arm for any", verbs.ErrNotSupported)

var statuses = [...]verbs.Status{
	abi.SIW_WC_SUCCESS:         verbs.StatusSuccess,
	abi.SIW_WC_LOC_LEN_ERR:     verbs.StatusLocLenErr,
	abi.SIW_WC_LOC_PROT_ERR:    verbs.StatusLocProtErr,
	abi.SIW_WC_LOC_QP_OP_ERR:   verbs.StatusLocQPOpErr,
	abi.SIW_WC_WR_FLUSH_ERR:    verbs.StatusWRFlushErr,
	abi.SIW_WC_BAD_RESP_ERR:    verbs.StatusBadRespErr,
	abi.SIW_WC_LOC_ACCESS_ERR:  verbs.StatusLocAccessErr,
	abi.SIW_WC_REM_ACCESS_ERR:  verbs.StatusRemAccessErr,
	abi.SIW_WC_REM_INV_REQ_ERR: verbs.StatusRemInvReqErr,
	abi.SIW_WC_GENERAL_ERR:     verbs.StatusGeneralErr,
}

// statusOf maps siw's status. An unknown status becomes StatusGeneralErr; the completion's
// VendorErr holds its number.
func statusOf(s uint16) verbs.Status {
	if int(s) < len(statuses) {
		return statuses[s]
	}
	return verbs.StatusGeneralErr
}

// wcOpcodes has an element for every uint8, so that lookups need no bounds check.
var wcOpcodes = func() (all [256]verbs.WCOpcode) {
	for op := range all {
		all[op] = verbs.WCOpcode(1<<16 | op)
	}
	for op, wc := range knownOpcodes {
		all[op] = wc
	}
	return all
}()

var knownOpcodes = map[uint8]verbs.WCOpcode{
	abi.SIW_OP_WRITE:           verbs.WCRDMAWrite,
	abi.SIW_OP_READ:            verbs.WCRDMARead,
	abi.SIW_OP_READ_LOCAL_INV:  verbs.WCRDMARead,
	abi.SIW_OP_SEND:            verbs.WCSend,
	abi.SIW_OP_SEND_WITH_IMM:   verbs.WCSend,
	abi.SIW_OP_SEND_REMOTE_INV: verbs.WCSend,
	abi.SIW_OP_FETCH_AND_ADD:   verbs.WCFetchAdd,
	abi.SIW_OP_COMP_AND_SWAP:   verbs.WCCompareSwap,
	abi.SIW_OP_RECEIVE:         verbs.WCRecv,
}

// opcodeOf maps siw's opcode. An unknown opcode prints as its number.
func opcodeOf(op uint8) verbs.WCOpcode { return wcOpcodes[op] }
