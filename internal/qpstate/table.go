// Package qpstate has the state machine of a queue pair: which transitions there are,
// and which attributes each needs.
package qpstate

import "github.com/goverbs/goverbs/uverbs/driver"

type transition struct{ from, to driver.QPState }

// rule says which attributes a transition must have, and which it may have.
type rule struct{ required, optional driver.QPAttrMask }

const (
	initAttrs   = driver.QPAttrPKeyIndex | driver.QPAttrPort
	sendingUC   = driver.QPAttrCurState | driver.QPAttrAltPath | driver.QPAttrAccess | driver.QPAttrPathMigState
	sendingRC   = sendingUC | driver.QPAttrMinRNRTimer
	receivingUC = driver.QPAttrAV | driver.QPAttrPathMTU | driver.QPAttrDestQPN | driver.QPAttrRQPSN
	drainedUC   = driver.QPAttrAV | driver.QPAttrAltPath | driver.QPAttrAccess | driver.QPAttrPKeyIndex | driver.QPAttrPathMigState
	answering   = driver.QPAttrMaxDestRDAtomic | driver.QPAttrMinRNRTimer
	retries     = driver.QPAttrTimeout | driver.QPAttrRetryCnt | driver.QPAttrRNRRetry | driver.QPAttrMaxQPRDAtomic
)

// transitions is the table of the InfiniBand specification (volume 1, 10.3.1) as
// the kernel has it (qp_state_table). RESET can be reached from everywhere, ERR
// from everywhere but RESET; they take nothing else.
var transitions = map[driver.QPType]map[transition]rule{
	driver.QPTypeRC: {
		{driver.QPStateReset, driver.QPStateInit}: {required: initAttrs | driver.QPAttrAccess},
		{driver.QPStateInit, driver.QPStateInit}:  {optional: initAttrs | driver.QPAttrAccess},
		{driver.QPStateInit, driver.QPStateRTR}: {required: receivingUC | answering,
			optional: driver.QPAttrAltPath | driver.QPAttrAccess | driver.QPAttrPKeyIndex},
		{driver.QPStateRTR, driver.QPStateRTS}: {required: retries | driver.QPAttrSQPSN, optional: sendingRC},
		{driver.QPStateRTS, driver.QPStateRTS}: {optional: sendingRC},
		{driver.QPStateRTS, driver.QPStateSQD}: {optional: driver.QPAttrEnSQDAsync},
		{driver.QPStateSQD, driver.QPStateRTS}: {optional: sendingRC},
		{driver.QPStateSQD, driver.QPStateSQD}: {optional: drainedUC | driver.QPAttrPort | retries | answering},
	},
	driver.QPTypeUC: {
		{driver.QPStateReset, driver.QPStateInit}: {required: initAttrs | driver.QPAttrAccess},
		{driver.QPStateInit, driver.QPStateInit}:  {optional: initAttrs | driver.QPAttrAccess},
		{driver.QPStateInit, driver.QPStateRTR}:   {required: receivingUC, optional: driver.QPAttrAltPath | driver.QPAttrAccess | driver.QPAttrPKeyIndex},
		{driver.QPStateRTR, driver.QPStateRTS}:    {required: driver.QPAttrSQPSN, optional: sendingUC},
		{driver.QPStateRTS, driver.QPStateRTS}:    {optional: sendingUC},
		{driver.QPStateRTS, driver.QPStateSQD}:    {optional: driver.QPAttrEnSQDAsync},
		{driver.QPStateSQD, driver.QPStateRTS}:    {optional: sendingUC},
		{driver.QPStateSQD, driver.QPStateSQD}:    {optional: drainedUC},
		{driver.QPStateSQE, driver.QPStateRTS}:    {optional: driver.QPAttrCurState | driver.QPAttrAccess},
	},
	driver.QPTypeXRCInitiator: {
		{driver.QPStateReset, driver.QPStateInit}: {required: initAttrs | driver.QPAttrAccess},
		{driver.QPStateInit, driver.QPStateInit}:  {optional: initAttrs | driver.QPAttrAccess},
		{driver.QPStateInit, driver.QPStateRTR}:   {required: receivingUC, optional: driver.QPAttrAltPath | driver.QPAttrAccess | driver.QPAttrPKeyIndex},
		{driver.QPStateRTR, driver.QPStateRTS}:    {required: retries | driver.QPAttrSQPSN, optional: sendingUC},
		{driver.QPStateRTS, driver.QPStateRTS}:    {optional: sendingUC},
		{driver.QPStateRTS, driver.QPStateSQD}:    {optional: driver.QPAttrEnSQDAsync},
		{driver.QPStateSQD, driver.QPStateRTS}:    {optional: sendingUC},
		{driver.QPStateSQD, driver.QPStateSQD}:    {optional: drainedUC | driver.QPAttrPort | retries},
	},
	driver.QPTypeXRCTarget: {
		{driver.QPStateReset, driver.QPStateInit}: {required: initAttrs | driver.QPAttrAccess},
		{driver.QPStateInit, driver.QPStateInit}:  {optional: initAttrs | driver.QPAttrAccess},
		{driver.QPStateInit, driver.QPStateRTR}: {required: receivingUC | answering,
			optional: driver.QPAttrAltPath | driver.QPAttrAccess | driver.QPAttrPKeyIndex},
		{driver.QPStateRTR, driver.QPStateRTS}: {required: driver.QPAttrTimeout | driver.QPAttrSQPSN, optional: sendingRC},
		{driver.QPStateRTS, driver.QPStateRTS}: {optional: sendingRC},
		{driver.QPStateRTS, driver.QPStateSQD}: {optional: driver.QPAttrEnSQDAsync},
		{driver.QPStateSQD, driver.QPStateRTS}: {optional: sendingRC},
		{driver.QPStateSQD, driver.QPStateSQD}: {optional: drainedUC | driver.QPAttrPort | driver.QPAttrTimeout | answering},
	},
	driver.QPTypeUD: {
		{driver.QPStateReset, driver.QPStateInit}: {required: initAttrs | driver.QPAttrQKey},
		{driver.QPStateInit, driver.QPStateInit}:  {optional: initAttrs | driver.QPAttrQKey},
		{driver.QPStateInit, driver.QPStateRTR}:   {optional: driver.QPAttrPKeyIndex | driver.QPAttrQKey},
		{driver.QPStateRTR, driver.QPStateRTS}:    {required: driver.QPAttrSQPSN, optional: driver.QPAttrCurState | driver.QPAttrQKey},
		{driver.QPStateRTS, driver.QPStateRTS}:    {optional: driver.QPAttrCurState | driver.QPAttrQKey},
		{driver.QPStateRTS, driver.QPStateSQD}:    {optional: driver.QPAttrEnSQDAsync},
		{driver.QPStateSQD, driver.QPStateRTS}:    {optional: driver.QPAttrCurState | driver.QPAttrQKey},
		{driver.QPStateSQD, driver.QPStateSQD}:    {optional: driver.QPAttrPKeyIndex | driver.QPAttrQKey},
		{driver.QPStateSQE, driver.QPStateRTS}:    {optional: driver.QPAttrCurState | driver.QPAttrQKey},
	},
}
