package uverbs

import (
	"fmt"

	"github.com/goverbs/goverbs/uverbs/driver"
)

// QPState is where a QP is in its life.
//
// C: enum ibv_qp_state
type QPState = driver.QPState

// The states of the verbs specification.
const (
	QPStateReset QPState = driver.QPStateReset
	QPStateInit  QPState = driver.QPStateInit
	QPStateRTR   QPState = driver.QPStateRTR // ready to receive
	QPStateRTS   QPState = driver.QPStateRTS // ready to send
	QPStateSQD   QPState = driver.QPStateSQD // send queue drained
	QPStateSQE   QPState = driver.QPStateSQE // send queue error
	QPStateErr   QPState = driver.QPStateErr
)

type transition struct{ from, to QPState }

// rule says which attributes a transition must have, and which it may have.
type rule struct{ required, optional QPAttrMask }

const (
	initAttrs   = QPAttrPKeyIndex | QPAttrPort
	sendingUC   = QPAttrCurState | QPAttrAltPath | QPAttrAccess | QPAttrPathMigState
	sendingRC   = sendingUC | QPAttrMinRNRTimer
	receivingUC = QPAttrAV | QPAttrPathMTU | QPAttrDestQPN | QPAttrRQPSN
	drainedUC   = QPAttrAV | QPAttrAltPath | QPAttrAccess | QPAttrPKeyIndex | QPAttrPathMigState
	retries     = QPAttrTimeout | QPAttrRetryCnt | QPAttrRNRRetry | QPAttrMaxQPRDAtomic
)

// transitions is the table of the InfiniBand specification (volume 1, 10.3.1) as
// the kernel has it (qp_state_table). RESET can be reached from everywhere, ERR
// from everywhere but RESET; they take nothing else.
var transitions = map[QPType]map[transition]rule{
	QPTypeRC: {
		{QPStateReset, QPStateInit}: {required: initAttrs | QPAttrAccess},
		{QPStateInit, QPStateInit}:  {optional: initAttrs | QPAttrAccess},
		{QPStateInit, QPStateRTR}: {required: receivingUC | QPAttrMaxDestRDAtomic | QPAttrMinRNRTimer,
			optional: QPAttrAltPath | QPAttrAccess | QPAttrPKeyIndex},
		{QPStateRTR, QPStateRTS}: {required: retries | QPAttrSQPSN, optional: sendingRC},
		{QPStateRTS, QPStateRTS}: {optional: sendingRC},
		{QPStateRTS, QPStateSQD}: {optional: QPAttrEnSQDAsync},
		{QPStateSQD, QPStateRTS}: {optional: sendingRC},
		{QPStateSQD, QPStateSQD}: {optional: drainedUC | QPAttrPort | retries | QPAttrMaxDestRDAtomic | QPAttrMinRNRTimer},
	},
	QPTypeUC: {
		{QPStateReset, QPStateInit}: {required: initAttrs | QPAttrAccess},
		{QPStateInit, QPStateInit}:  {optional: initAttrs | QPAttrAccess},
		{QPStateInit, QPStateRTR}:   {required: receivingUC, optional: QPAttrAltPath | QPAttrAccess | QPAttrPKeyIndex},
		{QPStateRTR, QPStateRTS}:    {required: QPAttrSQPSN, optional: sendingUC},
		{QPStateRTS, QPStateRTS}:    {optional: sendingUC},
		{QPStateRTS, QPStateSQD}:    {optional: QPAttrEnSQDAsync},
		{QPStateSQD, QPStateRTS}:    {optional: sendingUC},
		{QPStateSQD, QPStateSQD}:    {optional: drainedUC},
		{QPStateSQE, QPStateRTS}:    {optional: QPAttrCurState | QPAttrAccess},
	},
	QPTypeUD: {
		{QPStateReset, QPStateInit}: {required: initAttrs | QPAttrQKey},
		{QPStateInit, QPStateInit}:  {optional: initAttrs | QPAttrQKey},
		{QPStateInit, QPStateRTR}:   {optional: QPAttrPKeyIndex | QPAttrQKey},
		{QPStateRTR, QPStateRTS}:    {required: QPAttrSQPSN, optional: QPAttrCurState | QPAttrQKey},
		{QPStateRTS, QPStateRTS}:    {optional: QPAttrCurState | QPAttrQKey},
		{QPStateRTS, QPStateSQD}:    {optional: QPAttrEnSQDAsync},
		{QPStateSQD, QPStateRTS}:    {optional: QPAttrCurState | QPAttrQKey},
		{QPStateSQD, QPStateSQD}:    {optional: QPAttrPKeyIndex | QPAttrQKey},
		{QPStateSQE, QPStateRTS}:    {optional: QPAttrCurState | QPAttrQKey},
	},
}

// explainTransition tells what is wrong with a transition that the kernel
// refused, or "" if the table finds nothing wrong with it.
func explainTransition(typ QPType, from, to QPState, mask QPAttrMask) string {
	table, known := transitions[typ]
	if !known {
		return ""
	}
	r, ok := table[transition{from, to}]
	if !ok && to != QPStateReset && (to != QPStateErr || from == QPStateReset) {
		return fmt.Sprintf("no %v QP goes from %v to %v%s", typ, from, to, reachable(table, from))
	}
	mask &^= QPAttrState
	if missing := r.required &^ mask; missing != 0 {
		return fmt.Sprintf("%v to %v of a %v QP also needs %v", from, to, typ, missing)
	}
	if extra := mask &^ (r.required | r.optional); extra != 0 {
		return fmt.Sprintf("%v to %v of a %v QP can't take %v", from, to, typ, extra)
	}
	return ""
}

func reachable(table map[transition]rule, from QPState) string {
	for to := QPStateInit; to <= QPStateSQE; to++ {
		if _, ok := table[transition{from, to}]; ok && to != from {
			return fmt.Sprintf("; from %v the next is %v", from, to)
		}
	}
	return ""
}
