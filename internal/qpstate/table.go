// Package qpstate has the state machine of a queue pair: which transitions there are,
// and which attributes each needs.
package qpstate

import "github.com/goverbs/goverbs/verbs"

type transition struct{ from, to verbs.QPState }

// rule says which attributes a transition must have, and which it may have.
type rule struct{ required, optional verbs.QPAttrMask }

const (
	initAttrs   = verbs.QPAttrPKeyIndex | verbs.QPAttrPort
	sendingUC   = verbs.QPAttrCurState | verbs.QPAttrAltPath | verbs.QPAttrAccess | verbs.QPAttrPathMigState
	sendingRC   = sendingUC | verbs.QPAttrMinRNRTimer
	receivingUC = verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN
	drainedUC   = verbs.QPAttrAV | verbs.QPAttrAltPath | verbs.QPAttrAccess | verbs.QPAttrPKeyIndex | verbs.QPAttrPathMigState
	answering   = verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrMinRNRTimer
	retries     = verbs.QPAttrTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic
)

// transitions is the table of the InfiniBand specification (volume 1, 10.3.1) as
// the kernel has it (qp_state_table). RESET can be reached from everywhere, ERR
// from everywhere but RESET; they take nothing else.
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
		{verbs.QPStateRTR, verbs.QPStateRTS}: {required: verbs.QPAttrTimeout | verbs.QPAttrSQPSN, optional: sendingRC},
		{verbs.QPStateRTS, verbs.QPStateRTS}: {optional: sendingRC},
		{verbs.QPStateRTS, verbs.QPStateSQD}: {optional: verbs.QPAttrEnSQDAsync},
		{verbs.QPStateSQD, verbs.QPStateRTS}: {optional: sendingRC},
		{verbs.QPStateSQD, verbs.QPStateSQD}: {optional: drainedUC | verbs.QPAttrPort | verbs.QPAttrTimeout | answering},
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
	},
}
