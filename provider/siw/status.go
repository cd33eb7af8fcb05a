package siw

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

var errSolicited = fmt.Errorf("%w: siw raises no solicited-only events for receives; arm for any", verbs.ErrNotSupported)

var statuses = [...]verbs.Status{
	abi.SIW_WC_SUCCESS:         verbs.StatusSuccess,
	abi.SIW_WC_LOC_LEN_ERR:     verbs.StatusLocLenErr,
	abi.SIW_WC_LOC_PROT_ERR:    verbs.StatusLocProtErr,
	abi.SIW_WC_LOC_QP_OP_ERR:   verbs.StatusLocQPOpErr,
	abi.SIW_WC_WR_FLUSH_ERR:    verbs.StatusWRFlushErr,
	abi.SIW_WC_BAD_RESP_ERR:    verbs.StatusBadRespErr,
	abi.SIW_WC_LOC_ACCESS_ERR:  verbs.StatusLocAccessErr,
	abi.SIW_WC_REM_ACCESS_ERR:  verbs.StatusRemAccessErr,
	abi.SIW_WC_REM_INV_REQ_ERR: verbs.StatusRemInvReqErr,
	abi.SIW_WC_GENERAL_ERR:     verbs.StatusGeneralErr,
}

// statusOf maps siw's status. An unknown status becomes StatusGeneralErr; the completion's
// VendorErr holds its number.
func statusOf(s uint16) verbs.Status {
	if int(s) < len(statuses) {
		return statuses[s]
	}
	return verbs.StatusGeneralErr
}

// wcOpcodes has an element for every uint8, so that lookups need no bounds check.
var wcOpcodes = func() (all [256]verbs.WCOpcode) {
	for op := range all {
		all[op] = verbs.WCOpcode(1<<16 | op)
	}
	for op, wc := range knownOpcodes {
		all[op] = wc
	}
	return all
}()

var knownOpcodes = map[uint8]verbs.WCOpcode{
	abi.SIW_OP_WRITE:           verbs.WCRDMAWrite,
	abi.SIW_OP_READ:            verbs.WCRDMARead,
	abi.SIW_OP_READ_LOCAL_INV:  verbs.WCRDMARead,
	abi.SIW_OP_SEND:            verbs.WCSend,
	abi.SIW_OP_SEND_WITH_IMM:   verbs.WCSend,
	abi.SIW_OP_SEND_REMOTE_INV: verbs.WCSend,
	abi.SIW_OP_FETCH_AND_ADD:   verbs.WCFetchAdd,
	abi.SIW_OP_COMP_AND_SWAP:   verbs.WCCompareSwap,
	abi.SIW_OP_RECEIVE:         verbs.WCRecv,
}

// opcodeOf maps siw's opcode. An unknown opcode prints as its number.
func opcodeOf(op uint8) verbs.WCOpcode { return wcOpcodes[op] }
