package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

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
