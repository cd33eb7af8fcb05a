package driver

import (
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// CreateCQ asks a provider for a CQ.
type CreateCQ struct {
	Call
	// CQE is the number of entries asked for; the provider may raise it before Do.
	// After Do it is what the kernel granted, and the provider may correct it.
	CQE        uint32
	Vector     uint32
	HasChannel bool // events can be asked for
	Flags      verbs.CQFlags
	Ext        verbs.WCExtMask // what PollExt is to tell; 0 means that it is not called
	// Handle is known after Do.
	Handle uint32
}

// CQ is the user-space half of a CQ. Its methods, and those of the optional interfaces
// that it may have ([CQResizer], [EventCounter], [Cleaner], [ExtPoller], [Destroyer]), are
// called with the CQ held, but for those of [Peeker].
type CQ interface {
	// Poll fills wcs from its start with what is ready, and says how many there are
	// and whether one of them is bad: anything but a success.
	Poll(wcs []verbs.WC) (n int, bad bool, err error)
	// Arm asks for one event at the next completion. The CQ's lock is taken after it
	// by whoever polls, and is a barrier.
	Arm(solicitedOnly bool) error
}

// CQResizer is a CQ that can change its size. Resize carries out r and goes on with the
// queue that comes of it, in which are the completions that were not polled yet, and
// frees the memory that it needs no more. An error after Do is the end of the queue.
type CQResizer interface{ Resize(r *ResizeCQ) error }

// ResizeCQ asks a provider for another size of a CQ; CQE is as in [CreateCQ].
type ResizeCQ struct {
	Call
	CQE uint32
}

// Peeker is a CQ whose queue shows that it is empty in one word. Package uverbs looks at
// that before it calls Poll, which makes an empty poll cost half. Peek is called once,
// when the CQ is made; what it returns is looked at with the CQ held. A CQ that loses its
// queue, or comes to have completions elsewhere, must hide it.
type Peeker interface{ Peek() *mmap.Peek }

// EventCounter is a CQ that counts its events, or arms itself again at one. Event is
// called for each event when it is read from the channel, before any waiter is told of
// it.
type EventCounter interface{ Event() }

// Cleaner is a CQ that removes the completions of a [QP], or of a [WQ], that is in RESET or gone
// from its queue, and frees their entries of an SRQ. Without it package uverbs sets aside
// what is on the queue, to be polled first.
type Cleaner interface{ Clean(queue any) }

// ExtPoller is a CQ that fills ext[i] beside wcs[i]; ext is as long as wcs. A CQ that
// is made with an Ext must be one.
type ExtPoller interface {
	PollExt(wcs []verbs.WC, ext []verbs.WCExt) (n int, bad bool, err error)
}
