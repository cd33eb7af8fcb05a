package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

// WC is a work completion: how a work request ended.
//
// C: struct ibv_wc
type WC = driver.WC

// CompletionError is a completion that was not a success. [WC.Err] makes it.
type CompletionError = driver.CompletionError

// WCFlags say what else a completed receive carries.
//
// C: enum ibv_wc_flags
type WCFlags = driver.WCFlags

// Documented at [driver.WCFlags].
const (
	WCGRH      WCFlags = driver.WCGRH
	WCWithImm  WCFlags = driver.WCWithImm
	WCIPCsumOK WCFlags = driver.WCIPCsumOK
	WCWithInv  WCFlags = driver.WCWithInv
)

// WCOpcode says which kind of work request completed.
//
// C: enum ibv_wc_opcode
type WCOpcode = driver.WCOpcode

// Receives have bit 7 set.
const (
	WCSend            WCOpcode = driver.WCSend
	WCRDMAWrite       WCOpcode = driver.WCRDMAWrite
	WCRDMARead        WCOpcode = driver.WCRDMARead
	WCCompareSwap     WCOpcode = driver.WCCompareSwap
	WCFetchAdd        WCOpcode = driver.WCFetchAdd
	WCBindMW          WCOpcode = driver.WCBindMW
	WCLocalInv        WCOpcode = driver.WCLocalInv
	WCFlush           WCOpcode = driver.WCFlush
	WCAtomicWrite     WCOpcode = driver.WCAtomicWrite
	WCRecv            WCOpcode = driver.WCRecv
	WCRecvRDMAWithImm WCOpcode = driver.WCRecvRDMAWithImm
)
