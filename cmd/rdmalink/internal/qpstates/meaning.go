package qpstates

import (
	"slices"

	"github.com/goverbs/goverbs/verbs"
)

// meaning describes the operations that a state allows (IBA specification, volume
// 1, 10.3.1).
type meaning struct {
	state           verbs.QPState
	recv, send, net string // posted receives, posted sends, packets that arrive
	about           string
}

// meanings are in the order of a QP's life.
var meanings = []meaning{
	{verbs.QPStateReset, "refused", "refused", "dropped", "as made; what was on the queues is gone"},
	{verbs.QPStateInit, "kept", "refused", "dropped", "receives may be posted, so that none is missing when the peer begins"},
	{verbs.QPStateRTR, "used", "refused", "taken", "it knows its peer, receives, and answers READ, WRITE and atomics"},
	{verbs.QPStateRTS, "used", "sent", "taken", "it works in both directions"},
	{verbs.QPStateSQD, "used", "kept", "taken", "sends under way are finished and no other begins; attributes can change"},
	{verbs.QPStateSQE, "used", "flushed", "taken", "a send of UC or UD failed; the QP still receives"},
	{verbs.QPStateErr, "flushed", "flushed", "dropped", "every work request completes in error; the way out is RESET"},
}

// meanings are of the states that the types have: RC and XRC have no SQE.
func (m machine) meanings() []meaning {
	return slices.DeleteFunc(slices.Clone(meanings), func(one meaning) bool {
		return one.state == verbs.QPStateSQE && !m.has(verbs.QPStateSQE, verbs.QPStateRTS)
	})
}
