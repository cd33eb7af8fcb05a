package driver

import "fmt"

// WC is a work completion. When Status is not StatusSuccess only WRID, Status,
// QPN and VendorErr mean anything, and the rest is 0; so is what the driver
// can't tell. The fields stand as in struct ib_uverbs_wc, so that a provider whose
// queue is made of those can copy one as it is.
//
// C: struct ibv_wc
type WC struct {
	WRID      uint64   // as given with the work request
	Status    Status   // how it ended
	Opcode    WCOpcode // what it was
	VendorErr uint32   // the driver's own code for the error
	ByteLen   uint32   // bytes received or read; of UD with the 40 bytes in front
	// Imm is, with WCWithImm, the number that the sender gave (C: ntohl of
	// imm_data); with WCWithInv, the key that he ended: InvalidatedRKey.
	Imm          uint32
	QPN          uint32 // the local QP
	SrcQP        uint32 // UD: the sender's QP
	Flags        WCFlags
	PKeyIndex    uint16 // UD on a GSI QP
	SLID         uint16 // UD: the sender's LID, 0 on RoCE
	SL           uint8  // UD
	DLIDPathBits uint8  // UD: the path bits of the local LID
	_            [2]uint8
}

// InvalidatedRKey is the own key that the sender ended, with WCWithInv, else 0.
//
// C: invalidated_rkey of struct ibv_wc
func (wc *WC) InvalidatedRKey() uint32 {
	if wc.Flags&WCWithInv == 0 {
		return 0
	}
	return wc.Imm
}

// WCFlags say what else a completed receive carries.
//
// C: enum ibv_wc_flags
type WCFlags uint32

const (
	// WCGRH: the message came with a global route header. Only on UD QPs does it
	// stand in the buffer, in the first 40 bytes.
	WCGRH WCFlags = 1 << 0
	// WCWithImm: Imm is valid.
	WCWithImm WCFlags = 1 << 1
	// WCIPCsumOK: a raw packet of IPv4 came, and its checksums are right, the header's and
	// that of TCP or UDP. Without it they were not looked at, or are wrong.
	WCIPCsumOK WCFlags = 1 << 2
	// WCWithInv: InvalidatedRKey is valid, Imm is not.
	WCWithInv WCFlags = 1 << 3
)

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
	WCSend            WCOpcode = 0
	WCRDMAWrite       WCOpcode = 1
	WCRDMARead        WCOpcode = 2
	WCCompareSwap     WCOpcode = 3
	WCFetchAdd        WCOpcode = 4
	WCBindMW          WCOpcode = 5
	WCLocalInv        WCOpcode = 6
	WCFlush           WCOpcode = 8
	WCAtomicWrite     WCOpcode = 9
	WCRecv            WCOpcode = 128
	WCRecvRDMAWithImm WCOpcode = 129
)

var wcOpcodeNames = map[WCOpcode]string{
	WCSend: "SEND", WCRDMAWrite: "RDMA_WRITE", WCRDMARead: "RDMA_READ", WCCompareSwap: "COMP_SWAP",
	WCFetchAdd: "FETCH_ADD", WCBindMW: "BIND_MW", WCLocalInv: "LOCAL_INV",
	WCFlush: "FLUSH", WCAtomicWrite: "ATOMIC_WRITE",
	WCRecv: "RECV", WCRecvRDMAWithImm: "RECV_RDMA_WITH_IMM",
}

func (o WCOpcode) String() string {
	if s, ok := wcOpcodeNames[o]; ok {
		return s
	}
	return fmt.Sprintf("WCOpcode(%d)", uint32(o))
}
