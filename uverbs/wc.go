package uverbs

import "fmt"

// WC is a work completion. When Status is not StatusSuccess only WRID, Status,
// QPN and VendorErr mean anything.
//
// C: struct ibv_wc
type WC struct {
	WRID      uint64   // as given with the work request
	Status    Status   // how it ended
	Opcode    WCOpcode // what it was
	VendorErr uint32   // the driver's own code for the error
	ByteLen   uint32   // bytes received or read
	QPN       uint32   // the local QP
}

// Err returns nil for success, otherwise an error that matches the Status.
func (wc *WC) Err() error {
	if wc.Status == StatusSuccess {
		return nil
	}
	return &CompletionError{*wc}
}

// CompletionError is a completion that was not a success.
type CompletionError struct{ WC WC }

func (e *CompletionError) Error() string {
	return fmt.Sprintf("uverbs: work request %#x on QP %d: %v", e.WC.WRID, e.WC.QPN, e.WC.Status)
}

// Unwrap lets errors.Is match the Status.
func (e *CompletionError) Unwrap() error { return e.WC.Status }

// WCOpcode says which kind of work request completed.
//
// C: enum ibv_wc_opcode
type WCOpcode uint32

// Receives have bit 7 set.
const (
	WCSend        WCOpcode = 0
	WCRDMAWrite   WCOpcode = 1
	WCRDMARead    WCOpcode = 2
	WCCompareSwap WCOpcode = 3
	WCFetchAdd    WCOpcode = 4
	WCBindMW      WCOpcode = 5
	WCLocalInv    WCOpcode = 6
	WCRecv        WCOpcode = 128
	WCRecvImm     WCOpcode = 129
)

var wcOpcodeNames = map[WCOpcode]string{
	WCSend: "SEND", WCRDMAWrite: "RDMA_WRITE", WCRDMARead: "RDMA_READ", WCCompareSwap: "COMP_SWAP",
	WCFetchAdd: "FETCH_ADD", WCBindMW: "BIND_MW", WCLocalInv: "LOCAL_INV",
	WCRecv: "RECV", WCRecvImm: "RECV_RDMA_WITH_IMM",
}

func (o WCOpcode) String() string {
	if s, ok := wcOpcodeNames[o]; ok {
		return s
	}
	return fmt.Sprintf("WCOpcode(%d)", uint32(o))
}
