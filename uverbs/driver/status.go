package driver

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// Status is how a work request ended. Every value but StatusSuccess is an error.
//
// C: enum ibv_wc_status
type Status uint32

// The statuses of the verbs specification.
const (
	StatusSuccess        = Status(abi.IB_WC_SUCCESS)
	StatusLocLenErr      = Status(abi.IB_WC_LOC_LEN_ERR)
	StatusLocQPOpErr     = Status(abi.IB_WC_LOC_QP_OP_ERR)
	StatusLocEECOpErr    = Status(abi.IB_WC_LOC_EEC_OP_ERR)
	StatusLocProtErr     = Status(abi.IB_WC_LOC_PROT_ERR)
	StatusWRFlushErr     = Status(abi.IB_WC_WR_FLUSH_ERR)
	StatusMWBindErr      = Status(abi.IB_WC_MW_BIND_ERR)
	StatusBadRespErr     = Status(abi.IB_WC_BAD_RESP_ERR)
	StatusLocAccessErr   = Status(abi.IB_WC_LOC_ACCESS_ERR)
	StatusRemInvReqErr   = Status(abi.IB_WC_REM_INV_REQ_ERR)
	StatusRemAccessErr   = Status(abi.IB_WC_REM_ACCESS_ERR)
	StatusRemOpErr       = Status(abi.IB_WC_REM_OP_ERR)
	StatusRetryExcErr    = Status(abi.IB_WC_RETRY_EXC_ERR)
	StatusRNRRetryExcErr = Status(abi.IB_WC_RNR_RETRY_EXC_ERR)
	StatusRemAbortErr    = Status(abi.IB_WC_REM_ABORT_ERR)
	StatusFatalErr       = Status(abi.IB_WC_FATAL_ERR)
	StatusRespTimeoutErr = Status(abi.IB_WC_RESP_TIMEOUT_ERR)
	StatusGeneralErr     = Status(abi.IB_WC_GENERAL_ERR)
)

var statusTexts = map[Status]string{
	StatusSuccess:        "success",
	StatusLocLenErr:      "local length error",
	StatusLocQPOpErr:     "local QP operation error",
	StatusLocEECOpErr:    "local EE context operation error",
	StatusLocProtErr:     "local protection error",
	StatusWRFlushErr:     "work request flushed",
	StatusMWBindErr:      "memory window bind error",
	StatusBadRespErr:     "bad response",
	StatusLocAccessErr:   "local access error",
	StatusRemInvReqErr:   "remote invalid request",
	StatusRemAccessErr:   "remote access error",
	StatusRemOpErr:       "remote operation error",
	StatusRetryExcErr:    "transport retries exceeded",
	StatusRNRRetryExcErr: "receiver-not-ready retries exceeded",
	StatusRemAbortErr:    "remote aborted",
	StatusFatalErr:       "fatal error",
	StatusRespTimeoutErr: "response timeout",
	StatusGeneralErr:     "general error",
}

// Error and String name the status; a number that this package does not know
// prints as Status(27).
func (s Status) Error() string {
	if t, ok := statusTexts[s]; ok {
		return t
	}
	return fmt.Sprintf("Status(%d)", uint32(s))
}

func (s Status) String() string { return s.Error() }
