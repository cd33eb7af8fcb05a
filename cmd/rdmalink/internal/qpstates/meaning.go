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
	{verbs.QPStateReset, "refused", "refused", "dropped", "the QP is new, or its queues have been emptied"},
	{verbs.QPStateInit, "kept", "refused", "dropped", "receives can be posted before the peer sends"},
	{verbs.QPStateRTR, "used", "refused", "accepted", "the QP has a peer, receives, and answers READ, WRITE and atomics"},
	{verbs.QPStateRTS, "used", "sent", "accepted", "the QP sends and receives"},
	{verbs.QPStateSQD, "used", "kept", "accepted", "sends that have begun finish, and no others begin; attributes can be changed"},
	{verbs.QPStateSQE, "used", "flushed", "accepted", "a send failed on a UC or UD QP; the QP still receives"},
	{verbs.QPStateErr, "flushed", "flushed", "dropped", "every work request completes with an error; only RESET leads to other states"},
}

// meanings returns the meanings of the states of the types: RC and XRC have no SQE.
func (m machine) meanings() []meaning {
	return slices.DeleteFunc(slices.Clone(meanings), func(one meaning) bool {
		return one.state == verbs.QPStateSQE && !m.has(verbs.QPStateSQE, verbs.QPStateRTS)
	})
}
