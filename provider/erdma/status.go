package erdma

import "github.com/goverbs/goverbs/verbs"

// statuses maps the device's syndromes to statuses and vendor codes.
var statuses = [...]struct {
	status verbs.Status
	vendor uint32
}{
	1:  {verbs.StatusGeneralErr, 0},
	2:  {verbs.StatusGeneralErr, 1},      // a receive is malformed
	3:  {verbs.StatusRemAccessErr, 2},    // the receiving end: unknown key
	4:  {verbs.StatusRemAccessErr, 3},    // outside the region
	5:  {verbs.StatusRemAccessErr, 4},    // not allowed
	6:  {verbs.StatusRemAccessErr, 5},    // another PD
	7:  {verbs.StatusRemAccessErr, 6},    // the address wraps around
	8:  {verbs.StatusLocQPOpErr, 0x20},   // a send is malformed
	9:  {verbs.StatusGeneralErr, 0x21},   // no reads were negotiated
	10: {verbs.StatusLocAccessErr, 0x30}, // the sending end: as 3 to 7
	11: {verbs.StatusLocAccessErr, 0x31}, //
	12: {verbs.StatusLocAccessErr, 0x32}, //
	13: {verbs.StatusLocAccessErr, 0x33}, //
	14: {verbs.StatusLocAccessErr, 0x34}, //
	15: {verbs.StatusWRFlushErr, 0},      //
	16: {verbs.StatusRetryExcErr, 0},     //
}

// statusOf maps a syndrome. An unknown syndrome becomes StatusGeneralErr, with its number
// as the vendor code.
func statusOf(syndrome uint8) (verbs.Status, uint32) {
	if int(syndrome) < len(statuses) {
		s := &statuses[syndrome]
		return s.status, s.vendor
	}
	return verbs.StatusGeneralErr, uint32(syndrome)
}

// wcOpcodes has an element for every uint8. An unknown opcode prints as its number.
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
	opWrite:       verbs.WCRDMAWrite,
	opRead:        verbs.WCRDMARead,
	opSend:        verbs.WCSend,
	opSendImm:     verbs.WCSend,
	opReceive:     verbs.WCRecv,
	opRecvImm:     verbs.WCRecvRDMAWithImm,
	opRecvInv:     verbs.WCRecv,
	opWriteImm:    verbs.WCRDMAWrite,
	opRspSendImm:  verbs.WCRecv,
	opSendInv:     verbs.WCSend,
	opLocalInv:    verbs.WCLocalInv,
	opReadInv:     verbs.WCRDMARead,
	opCompareSwap: verbs.WCCompareSwap,
	opFetchAdd:    verbs.WCFetchAdd,
}
