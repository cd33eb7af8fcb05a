package perf

import (
	"sync/atomic"

	"github.com/goverbs/goverbs/verbs"
)

// credit counts the receives that are posted at the other end of a flow.
type credit struct {
	given *atomic.Uint32 // number of messages received here, written to the peer from this memory
	got   *atomic.Uint32 // number of messages that the peer has received, written by the peer
	wr    [1]verbs.SendWR
	sge   [1]verbs.SGE
	every int // messages
	due   int // messages until the next
	busy  int // credits that have not completed
}

const (
	creditSize = 4
	creditRoom = 4 // credits under way
)

// prepareCredit prepares the WRITE that reports every third of the receive depth to
// the peer.
//
// C: ctx_set_credit_wqes
func (f *flow) prepareCredit(e *end) {
	c := &f.credit
	c.every = max(e.RxDepth/3, 1)
	c.due = c.every
	c.given.Store(0)
	c.sge[0] = e.creditMR.SGE(f.index*creditSize, creditSize)
	c.wr[0] = verbs.SendWR{WRID: uint64(f.index) | isCredit, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
		SGL: c.sge[:], RemoteAddr: f.peer.VAddr, RKey: f.peer.RKey}
}

// hasCredit reports whether the peer is sure to have a receive for each message of
// the next list.
func (f *flow) hasCredit(e *end) bool {
	return e.creditMR == nil || f.sent+len(f.sends)-int(f.credit.got.Load()) < e.RxDepth
}

// give writes the number of received messages to the peer when it is due. The
// device may read the number later, so the peer may get a newer one.
func (r *run) give(f *flow) error {
	c := &f.credit
	if c.due > 0 || c.busy == creditRoom {
		return nil
	}
	c.due = c.every
	c.given.Store(uint32(f.got))
	if _, err := f.qp.PostSend(c.wr[:]); err != nil {
		return err
	}
	c.busy++
	return nil
}

// gave notes that a credit got there, and gives the next if it had to wait.
func (r *run) gave(f *flow, wc *verbs.WC) error {
	if f.credit.busy == 0 {
		return notPosted(wc)
	}
	f.credit.busy--
	return r.give(f)
}
