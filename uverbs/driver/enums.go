package driver

import "github.com/goverbs/goverbs/netlinkrdma"

// GUID is a 64-bit global identifier.
type GUID = netlinkrdma.GUID

// QPType is the transport service of a QP.
//
// C: enum ibv_qp_type
type QPType = netlinkrdma.QPType

// The services that package uverbs has.
const (
	QPTypeRC     QPType = netlinkrdma.QPTypeRC
	QPTypeUC     QPType = netlinkrdma.QPTypeUC
	QPTypeUD     QPType = netlinkrdma.QPTypeUD
	QPTypeDriver QPType = netlinkrdma.QPTypeDriver // the driver's own, such as EFA's SRD

	QPTypeRawPacket    QPType = netlinkrdma.QPTypeRawPacket
	QPTypeXRCInitiator QPType = netlinkrdma.QPTypeXRCInitiator
	QPTypeXRCTarget    QPType = netlinkrdma.QPTypeXRCTarget
)

// QPState is where a QP is in its life.
//
// C: enum ibv_qp_state
type QPState = netlinkrdma.QPState

// The states of the verbs specification.
const (
	QPStateReset QPState = netlinkrdma.QPStateReset
	QPStateInit  QPState = netlinkrdma.QPStateInit
	QPStateRTR   QPState = netlinkrdma.QPStateRTR // ready to receive
	QPStateRTS   QPState = netlinkrdma.QPStateRTS // ready to send
	QPStateSQD   QPState = netlinkrdma.QPStateSQD // send queue drained
	QPStateSQE   QPState = netlinkrdma.QPStateSQE // send queue error
	QPStateErr   QPState = netlinkrdma.QPStateErr
)

// PathMigState says which of a QP's two paths is in use.
//
// C: enum ibv_mig_state
type PathMigState = netlinkrdma.PathMigState
