package netconn

import (
	"errors"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Armed is the set of completions of the send queue that raise an event.
type Armed uint8

// The sets.
const (
	ArmedForNone Armed = iota
	ArmedForFailures
	ArmedForAll
)

// Sends arms the send queue of a connection. A failed send may be the only sign that the connection has
// ended. Those that succeed matter only to a call that waits for room in the queue or the buffer, or
// for delivery. Other calls would be woken for nothing.
type Sends struct {
	CQ         *uverbs.CQ
	Armed      Armed
	noFailures bool // the queue can't be armed for failures only
}

// Watch arms the queue, if sends are outstanding. successes reports whether those that succeed matter.
//
// A failed send raises an event even if only solicited events were asked for. siw refuses to be asked
// for those. There, and on rxe, which ignores failures, the receives that are flushed with the
// send raise one.
func (s *Sends) Watch(outstanding, successes bool) {
	want := ArmedForFailures
	switch {
	case !outstanding:
		want = ArmedForNone
	case successes:
		want = ArmedForAll
	case s.noFailures:
		want = ArmedForNone
	}
	if s.Armed >= want {
		return
	}
	switch err := s.CQ.Arm(want == ArmedForFailures); {
	case err == nil:
		s.Armed = want
	case want == ArmedForFailures && errors.Is(err, verbs.ErrNotSupported):
		s.noFailures = true
	}
}

// Polled notes that completions were polled.
func (s *Sends) Polled() {
	if s.Armed == ArmedForAll {
		s.Armed = ArmedForNone
	}
}

// Rang notes that an event of a queue was read. The send queue is not armed then, even if it was armed again
// before its event was read: some devices ignore that.
func (s *Sends) Rang(cq *uverbs.CQ) {
	if cq == s.CQ {
		s.Armed = ArmedForNone
	}
}
