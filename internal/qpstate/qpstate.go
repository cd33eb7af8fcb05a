// Package qpstate has the state machine of queue pairs: the transitions, and the attributes
// that each transition needs.
package qpstate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goverbs/goverbs/verbs"
)

type transition struct{ from, to verbs.QPState }

// rule has the attributes that a transition must have, and those that it may have.
type rule struct{ required, optional verbs.QPAttrMask }

const (
	initAttrs   = verbs.QPAttrPKeyIndex | verbs.QPAttrPort
	sendingUC   = verbs.QPAttrCurState | verbs.QPAttrAltPath | verbs.QPAttrAccess | verbs.QPAttrPathMigState
	sendingRC   = sendingUC | verbs.QPAttrRNRTimer
	receivingUC = verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN
	drainedUC   = verbs.QPAttrAV | verbs.QPAttrAltPath | verbs.QPAttrAccess | verbs.QPAttrPKeyIndex | verbs.QPAttrPathMigState
	answering   = verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrRNRTimer
	retries     = verbs.QPAttrAckTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic
)

// transitions is the table of the InfiniBand specification (volume 1, 10.3.1) as the kernel
// has it (qp_state_table). It leaves out the transitions to RESET from any state, and to ERR
// from any state but RESET. Those take no attributes.
var transitions = map[verbs.QPType]map[transition]rule{
	verbs.QPTypeRC: {
		{verbs.QPStateReset, verbs.QPStateInit}: {required: initAttrs | verbs.QPAttrAccess},
		{verbs.QPStateInit, verbs.QPStateInit}:  {optional: initAttrs | verbs.QPAttrAccess},
		{verbs.QPStateInit, verbs.QPStateRTR}: {required: receivingUC | answering,
			optional: verbs.QPAttrAltPath | verbs.QPAttrAccess | verbs.QPAttrPKeyIndex},
		{verbs.QPStateRTR, verbs.QPStateRTS}: {required: retries | verbs.QPAttrSQPSN, optional: sendingRC},
		{verbs.QPStateRTS, verbs.QPStateRTS}: {optional: sendingRC},
		{verbs.QPStateRTS, verbs.QPStateSQD}: {optional: verbs.QPAttrEnSQDAsync},
		{verbs.QPStateSQD, verbs.QPStateRTS}: {optional: sendingRC},
		{verbs.QPStateSQD, verbs.QPStateSQD}: {optional: drainedUC | verbs.QPAttrPort | retries | answering},
	},
	verbs.QPTypeUC: {
		{verbs.QPStateReset, verbs.QPStateInit}: {required: initAttrs | verbs.QPAttrAccess},
		{verbs.QPStateInit, verbs.QPStateInit}:  {optional: initAttrs | verbs.QPAttrAccess},
		{verbs.QPStateInit, verbs.QPStateRTR}:   {required: receivingUC, optional: verbs.QPAttrAltPath | verbs.QPAttrAccess | verbs.QPAttrPKeyIndex},
		{verbs.QPStateRTR, verbs.QPStateRTS}:    {required: verbs.QPAttrSQPSN, optional: sendingUC},
		{verbs.QPStateRTS, verbs.QPStateRTS}:    {optional: sendingUC},
		{verbs.QPStateRTS, verbs.QPStateSQD}:    {optional: verbs.QPAttrEnSQDAsync},
		{verbs.QPStateSQD, verbs.QPStateRTS}:    {optional: sendingUC},
		{verbs.QPStateSQD, verbs.QPStateSQD}:    {optional: drainedUC},
		{verbs.QPStateSQE, verbs.QPStateRTS}:    {optional: verbs.QPAttrCurState | verbs.QPAttrAccess},
	},
	verbs.QPTypeXRCInitiator: {
		{verbs.QPStateReset, verbs.QPStateInit}: {required: initAttrs | verbs.QPAttrAccess},
		{verbs.QPStateInit, verbs.QPStateInit}:  {optional: initAttrs | verbs.QPAttrAccess},
		{verbs.QPStateInit, verbs.QPStateRTR}:   {required: receivingUC, optional: verbs.QPAttrAltPath | verbs.QPAttrAccess | verbs.QPAttrPKeyIndex},
		{verbs.QPStateRTR, verbs.QPStateRTS}:    {required: retries | verbs.QPAttrSQPSN, optional: sendingUC},
		{verbs.QPStateRTS, verbs.QPStateRTS}:    {optional: sendingUC},
		{verbs.QPStateRTS, verbs.QPStateSQD}:    {optional: verbs.QPAttrEnSQDAsync},
		{verbs.QPStateSQD, verbs.QPStateRTS}:    {optional: sendingUC},
		{verbs.QPStateSQD, verbs.QPStateSQD}:    {optional: drainedUC | verbs.QPAttrPort | retries},
	},
	verbs.QPTypeXRCTarget: {
		{verbs.QPStateReset, verbs.QPStateInit}: {required: initAttrs | verbs.QPAttrAccess},
		{verbs.QPStateInit, verbs.QPStateInit}:  {optional: initAttrs | verbs.QPAttrAccess},
		{verbs.QPStateInit, verbs.QPStateRTR}: {required: receivingUC | answering,
			optional: verbs.QPAttrAltPath | verbs.QPAttrAccess | verbs.QPAttrPKeyIndex},
		{verbs.QPStateRTR, verbs.QPStateRTS}: {required: verbs.QPAttrAckTimeout | verbs.QPAttrSQPSN, optional: sendingRC},
		{verbs.QPStateRTS, verbs.QPStateRTS}: {optional: sendingRC},
		{verbs.QPStateRTS, verbs.QPStateSQD}: {optional: verbs.QPAttrEnSQDAsync},
		{verbs.QPStateSQD, verbs.QPStateRTS}: {optional: sendingRC},
		{verbs.QPStateSQD, verbs.QPStateSQD}: {optional: drainedUC | verbs.QPAttrPort | verbs.QPAttrAckTimeout | answering},
	},
	verbs.QPTypeUD: {
		{verbs.QPStateReset, verbs.QPStateInit}: {required: initAttrs | verbs.QPAttrQKey},
		{verbs.QPStateInit, verbs.QPStateInit}:  {optional: initAttrs | verbs.QPAttrQKey},
		{verbs.QPStateInit, verbs.QPStateRTR}:   {optional: verbs.QPAttrPKeyIndex | verbs.QPAttrQKey},
		{verbs.QPStateRTR, verbs.QPStateRTS}:    {required: verbs.QPAttrSQPSN, optional: verbs.QPAttrCurState | verbs.QPAttrQKey},
		{verbs.QPStateRTS, verbs.QPStateRTS}:    {optional: verbs.QPAttrCurState | verbs.QPAttrQKey},
		{verbs.QPStateRTS, verbs.QPStateSQD}:    {optional: verbs.QPAttrEnSQDAsync},
		{verbs.QPStateSQD, verbs.QPStateRTS}:    {optional: verbs.QPAttrCurState | verbs.QPAttrQKey},
		{verbs.QPStateSQD, verbs.QPStateSQD}:    {optional: verbs.QPAttrPKeyIndex | verbs.QPAttrQKey},
		{verbs.QPStateSQE, verbs.QPStateRTS}:    {optional: verbs.QPAttrCurState | verbs.QPAttrQKey},
	}, verbs.QPTypeSRD: { // of the driver efa (srd_qp_state_table)
		{verbs.QPStateReset, verbs.QPStateInit}: {required: initAttrs | verbs.QPAttrQKey},
		{verbs.QPStateInit, verbs.QPStateInit}:  {optional: initAttrs | verbs.QPAttrQKey},
		{verbs.QPStateInit, verbs.QPStateRTR}:   {optional: verbs.QPAttrPKeyIndex | verbs.QPAttrQKey},
		{verbs.QPStateRTR, verbs.QPStateRTS}:    {required: verbs.QPAttrSQPSN, optional: verbs.QPAttrCurState | verbs.QPAttrQKey | verbs.QPAttrRNRRetry},
		{verbs.QPStateRTS, verbs.QPStateRTS}:    {optional: verbs.QPAttrCurState | verbs.QPAttrQKey},
		{verbs.QPStateRTS, verbs.QPStateSQD}:    {optional: verbs.QPAttrEnSQDAsync},
		{verbs.QPStateSQD, verbs.QPStateRTS}:    {optional: verbs.QPAttrCurState | verbs.QPAttrQKey},
		{verbs.QPStateSQD, verbs.QPStateSQD}:    {optional: verbs.QPAttrPKeyIndex | verbs.QPAttrQKey},
		{verbs.QPStateSQE, verbs.QPStateRTS}:    {optional: verbs.QPAttrCurState | verbs.QPAttrQKey},
	},
	verbs.QPTypeDCI: { // of the driver mlx5, as is DCT
		{verbs.QPStateReset, verbs.QPStateInit}: {required: initAttrs},
		{verbs.QPStateInit, verbs.QPStateInit}:  {optional: initAttrs},
		{verbs.QPStateInit, verbs.QPStateRTR}:   {required: verbs.QPAttrPathMTU, optional: verbs.QPAttrPKeyIndex | verbs.QPAttrAV},
		{verbs.QPStateRTR, verbs.QPStateRTS}:    {required: retries | verbs.QPAttrSQPSN, optional: verbs.QPAttrRNRTimer},
		{verbs.QPStateRTS, verbs.QPStateRTS}:    {optional: verbs.QPAttrRNRTimer},
	},
	verbs.QPTypeDCT: {
		{verbs.QPStateReset, verbs.QPStateInit}: {required: initAttrs | verbs.QPAttrAccess},
		{verbs.QPStateInit, verbs.QPStateRTR}:   {required: verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrRNRTimer},
	},
}

// Transition is a transition that a program may request, and the attributes that the request
// must have and may have besides the state.
type Transition struct {
	From, To           verbs.QPState
	Required, Optional verbs.QPAttrMask
}

// Types returns the types of QPs whose state machine is known.
func Types() []verbs.QPType {
	return []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD, verbs.QPTypeSRD, verbs.QPTypeXRCInitiator, verbs.QPTypeXRCTarget, verbs.QPTypeDCI, verbs.QPTypeDCT}
}

// Of returns the transitions of a type, sorted by state. It leaves out those to RESET and
// to ERR, which take no attributes (see Anywhere).
func Of(typ verbs.QPType) []Transition {
	var all []Transition
	for t, r := range transitions[typ] {
		all = append(all, Transition{t.from, t.to, r.required, r.optional})
	}
	slices.SortFunc(all, func(a, b Transition) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return all
}

// Anywhere reports whether QPs of a type have a transition that those of nearly all types have: to RESET, or to
// ERR. A DCT has neither.
func Anywhere(typ verbs.QPType, from, to verbs.QPState) bool {
	return typ != verbs.QPTypeDCT && (to == verbs.QPStateReset || to == verbs.QPStateErr && from != verbs.QPStateReset)
}

// Explain returns why the kernel refused a transition, or "" if the table permits it.
func Explain(typ verbs.QPType, from, to verbs.QPState, mask verbs.QPAttrMask) string {
	table, known := transitions[typ]
	if !known {
		return ""
	}
	r, ok := table[transition{from, to}]
	if !ok && !Anywhere(typ, from, to) {
		return fmt.Sprintf("no %v QP goes from %v to %v%s", typ, from, to, reachable(table, from))
	}
	mask &^= verbs.QPAttrState
	if missing := r.required &^ mask; missing != 0 {
		return fmt.Sprintf("%v to %v of a %v QP also needs %v", from, to, typ, missing)
	}
	if extra := mask &^ (r.required | r.optional); extra != 0 {
		return fmt.Sprintf("%v to %v of a %v QP can't take %v", from, to, typ, extra)
	}
	return ""
}

func reachable(table map[transition]rule, from verbs.QPState) string {
	for to := verbs.QPStateInit; to <= verbs.QPStateSQE; to++ {
		if _, ok := table[transition{from, to}]; ok && to != from {
			return fmt.Sprintf("; from %v the next is %v", from, to)
		}
	}
	return ""
}
