package siw

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs/driver"
)

var errSolicited = fmt.Errorf("%w: siw raises no solicited-only events for receives; arm for any", driver.ErrNotSupported)

var statuses = [...]driver.Status{
	abi.SIW_WC_SUCCESS:         driver.StatusSuccess,
	abi.SIW_WC_LOC_LEN_ERR:     driver.StatusLocLenErr,
	abi.SIW_WC_LOC_PROT_ERR:    driver.StatusLocProtErr,
	abi.SIW_WC_LOC_QP_OP_ERR:   driver.StatusLocQPOpErr,
	abi.SIW_WC_WR_FLUSH_ERR:    driver.StatusWRFlushErr,
	abi.SIW_WC_BAD_RESP_ERR:    driver.StatusBadRespErr,
	abi.SIW_WC_LOC_ACCESS_ERR:  driver.StatusLocAccessErr,
	abi.SIW_WC_REM_ACCESS_ERR:  driver.StatusRemAccessErr,
	abi.SIW_WC_REM_INV_REQ_ERR: driver.StatusRemInvReqErr,
	abi.SIW_WC_GENERAL_ERR:     driver.StatusGeneralErr,
}

// statusOf maps siw's status; one that siw hasn't got is a general error, and
// the completion's VendorErr tells which it was.
func statusOf(s uint16) driver.Status {
	if int(s) < len(statuses) {
		return statuses[s]
	}
	return driver.StatusGeneralErr
}

// wcOpcodes has all there can be, which spares the look whether one is beyond the end.
var wcOpcodes = func() (all [256]driver.WCOpcode) {
	for op := range all {
		all[op] = driver.WCOpcode(1<<16 | op)
	}
	for op, wc := range knownOpcodes {
		all[op] = wc
	}
	return all
}()

var knownOpcodes = map[uint8]driver.WCOpcode{
	abi.SIW_OP_WRITE:           driver.WCRDMAWrite,
	abi.SIW_OP_READ:            driver.WCRDMARead,
	abi.SIW_OP_READ_LOCAL_INV:  driver.WCRDMARead,
	abi.SIW_OP_SEND:            driver.WCSend,
	abi.SIW_OP_SEND_WITH_IMM:   driver.WCSend,
	abi.SIW_OP_SEND_REMOTE_INV: driver.WCSend,
	abi.SIW_OP_FETCH_AND_ADD:   driver.WCFetchAdd,
	abi.SIW_OP_COMP_AND_SWAP:   driver.WCCompareSwap,
	abi.SIW_OP_RECEIVE:         driver.WCRecv,
}

// opcodeOf maps siw's opcode; one that can't be prints as its number.
func opcodeOf(op uint8) driver.WCOpcode { return wcOpcodes[op] }
