package erdma

import "github.com/goverbs/goverbs/uverbs/driver"

// statuses are the device's syndromes: what each comes to, and the code of the vendor.
var statuses = [...]struct {
	status driver.Status
	vendor uint32
}{
	1:  {driver.StatusGeneralErr, 0},
	2:  {driver.StatusGeneralErr, 1},      // a receive is malformed
	3:  {driver.StatusRemAccessErr, 2},    // the receiving end: unknown key
	4:  {driver.StatusRemAccessErr, 3},    // outside the region
	5:  {driver.StatusRemAccessErr, 4},    // not allowed
	6:  {driver.StatusRemAccessErr, 5},    // another PD
	7:  {driver.StatusRemAccessErr, 6},    // the address wraps around
	8:  {driver.StatusLocQPOpErr, 0x20},   // a send is malformed
	9:  {driver.StatusGeneralErr, 0x21},   // no reads were negotiated
	10: {driver.StatusLocAccessErr, 0x30}, // the sending end: as 3 to 7
	11: {driver.StatusLocAccessErr, 0x31}, //
	12: {driver.StatusLocAccessErr, 0x32}, //
	13: {driver.StatusLocAccessErr, 0x33}, //
	14: {driver.StatusLocAccessErr, 0x34}, //
	15: {driver.StatusWRFlushErr, 0},      //
	16: {driver.StatusRetryExcErr, 0},     //
}

// statusOf maps a syndrome; one that is not known is a general error, and tells its
// number as the vendor's code.
func statusOf(syndrome uint8) (driver.Status, uint32) {
	if int(syndrome) < len(statuses) {
		s := &statuses[syndrome]
		return s.status, s.vendor
	}
	return driver.StatusGeneralErr, uint32(syndrome)
}

// wcOpcodes has all there can be; one that is not known prints as its number.
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
	opWrite:       driver.WCRDMAWrite,
	opRead:        driver.WCRDMARead,
	opSend:        driver.WCSend,
	opSendImm:     driver.WCSend,
	opReceive:     driver.WCRecv,
	opRecvImm:     driver.WCRecvRDMAWithImm,
	opRecvInv:     driver.WCRecv,
	opWriteImm:    driver.WCRDMAWrite,
	opRspSendImm:  driver.WCRecv,
	opSendInv:     driver.WCSend,
	opLocalInv:    driver.WCLocalInv,
	opReadInv:     driver.WCRDMARead,
	opCompareSwap: driver.WCCompareSwap,
	opFetchAdd:    driver.WCFetchAdd,
}
