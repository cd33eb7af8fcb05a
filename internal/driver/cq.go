package driver

import (
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// CreateCQ is a request for a CQ.
type CreateCQ struct {
	Call
	// CQE is the requested number of entries, which the provider may raise before Do. After
	// Do it is the kernel's number, which the provider may correct.
	CQE        uint32
	Vector     uint32
	HasChannel bool // the CQ can be armed
	Flags      verbs.CQFlags
	Ext        verbs.WCExtMask // the fields that PollExt fills in; 0 means that it is not called
	MaxInline  uint32          // bytes of a message that a completion may hold, at most CQInliner's
	// Handle is set by Do.
	Handle uint32
}

// CQ is the user-space half of a CQ. It may implement [CQResizer], [EventCounter], [Cleaner],
// [ExtPoller], [Destroyer] and [Peeker]. All of these methods except Peek are called with the CQ's
// lock held.
type CQ interface {
	// Poll stores completions in wcs. It returns their number, and whether one of them has
	// failed.
	Poll(wcs []verbs.WC) (n int, bad bool, err error)
	// Arm requests one event at the next completion. The next Poll takes the CQ's lock, which
	// is a barrier.
	Arm(solicitedOnly bool) error
}

// CQResizer is a CQ that can change its size. Resize carries out r, continues with the new queue,
// which holds the completions that were not polled yet, and frees the old memory. If it fails after
// Do, the queue is unusable.
type CQResizer interface{ Resize(r *ResizeCQ) error }

// ResizeCQ is a request for another size of a CQ; CQE is as in [CreateCQ].
type ResizeCQ struct {
	Call
	CQE uint32
}

// Peeker is a CQ with a word of memory that shows whether its queue is empty. Package uverbs reads
// the word before it calls Poll, which halves the cost of an empty poll. Peek is called once, when
// the CQ is created. Its result is used with the CQ's lock held. If the CQ loses its queue, or gets
// completions elsewhere, it must hide the word.
type Peeker interface{ Peek() *mmap.Peek }

// EventCounter is a CQ that counts its events, or arms itself again after each. Event is called when
// an event is read from the channel, before any waiter is woken.
type EventCounter interface{ Event() }

// Cleaner is a CQ that can remove the completions of a [QP] or [WQ] from its queue and free their
// SRQ entries. Clean is called after the kernel has put the QP or WQ into RESET or destroyed it.
// Without it, uverbs takes all completions off the queue and returns them from later polls first.
type Cleaner interface{ Clean(queue any) }

// ExtPoller is a CQ that can fill in ext[i] for each wcs[i]. ext is as long as wcs. A CQ that is
// created with an Ext must implement it.
type ExtPoller interface {
	PollExt(wcs []verbs.WC, ext []verbs.WCExt) (n int, bad bool, err error)
}
