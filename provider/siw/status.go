package siw

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

var errSolicited = fmt.Errorf("%w: siw raises no solicited-only events for receives; arm for any", uverbs.ErrNotSupported)

var statuses = [...]uverbs.Status{
	abi.SIW_WC_SUCCESS:         uverbs.StatusSuccess,
	abi.SIW_WC_LOC_LEN_ERR:     uverbs.StatusLocLenErr,
	abi.SIW_WC_LOC_PROT_ERR:    uverbs.StatusLocProtErr,
	abi.SIW_WC_LOC_QP_OP_ERR:   uverbs.StatusLocQPOpErr,
	abi.SIW_WC_WR_FLUSH_ERR:    uverbs.StatusWRFlushErr,
	abi.SIW_WC_BAD_RESP_ERR:    uverbs.StatusBadRespErr,
	abi.SIW_WC_LOC_ACCESS_ERR:  uverbs.StatusLocAccessErr,
	abi.SIW_WC_REM_ACCESS_ERR:  uverbs.StatusRemAccessErr,
	abi.SIW_WC_REM_INV_REQ_ERR: uverbs.StatusRemInvReqErr,
	abi.SIW_WC_GENERAL_ERR:     uverbs.StatusGeneralErr,
}

// statusOf maps siw's status; one that siw hasn't got is a general error, and
// the completion's VendorErr tells which it was.
func statusOf(s uint16) uverbs.Status {
	if int(s) < len(statuses) {
		return statuses[s]
	}
	return uverbs.StatusGeneralErr
}

var wcOpcodes = [...]uverbs.WCOpcode{
	abi.SIW_OP_WRITE:           uverbs.WCRDMAWrite,
	abi.SIW_OP_READ:            uverbs.WCRDMARead,
	abi.SIW_OP_READ_LOCAL_INV:  uverbs.WCRDMARead,
	abi.SIW_OP_SEND:            uverbs.WCSend,
	abi.SIW_OP_SEND_WITH_IMM:   uverbs.WCSend,
	abi.SIW_OP_SEND_REMOTE_INV: uverbs.WCSend,
	abi.SIW_OP_FETCH_AND_ADD:   uverbs.WCFetchAdd,
	abi.SIW_OP_COMP_AND_SWAP:   uverbs.WCCompareSwap,
	abi.SIW_OP_RECEIVE:         uverbs.WCRecv,
}

// opcodeOf maps siw's opcode; one that can't be prints as its number.
func opcodeOf(op uint8) uverbs.WCOpcode {
	if int(op) < len(wcOpcodes) {
		return wcOpcodes[op]
	}
	return uverbs.WCOpcode(1<<16 | uint32(op))
}
