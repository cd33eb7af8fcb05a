package verbs

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// WC is a work completion. If Status is not StatusSuccess, only WRID, Status, QPN and VendorErr are
// valid, and the other fields are 0. Fields that the driver does not know are 0, too. The layout is
// that of struct ib_uverbs_wc, so that a provider whose queue consists of these can copy them.
//
// C: struct ibv_wc
type WC struct {
	WRID      uint64   // the work request's
	Status    Status   // result
	Opcode    WCOpcode // kind of work request
	VendorErr uint32   // the driver's own error code
	ByteLen   uint32   // bytes received or read; for UD including the 40 bytes before the message
	// Imm is the sender's immediate data with WCWithImm (C: ntohl of imm_data). With
	// WCWithInv it is the key that the sender invalidated: see InvalidatedRKey.
	Imm       uint32
	QPN       uint32 // the local QP
	SrcQPN    uint32 // UD and SRD: the sender's QP
	Flags     WCFlags
	PKeyIndex uint16 // UD on a GSI QP
	// SLID is the sender's LID on UD, and 0 on RoCE. On EFA, it is the number of the PD's AH for the
	// sender's address (uverbs.AH.Number), or 0xffff if there is none.
	SLID         uint16
	SL           uint8 // UD; over RoCE the priority of the VLAN tag, if the device reports it
	DLIDPathBits uint8 // UD: the path bits of the local LID
	_            [2]uint8
}

// InvalidatedRKey returns the local key that the sender invalidated, or 0 without WCWithInv.
//
// C: invalidated_rkey of struct ibv_wc
func (wc *WC) InvalidatedRKey() uint32 {
	if wc.Flags&WCWithInv == 0 {
		return 0
	}
	return wc.Imm
}

// Err returns nil for success, otherwise an [Error] that matches the Status.
func (wc *WC) Err() error {
	if wc.Status == StatusSuccess {
		return nil
	}
	return &Error{Op: "complete", Object: fmt.Sprintf("work request %#x on QP %d", wc.WRID, wc.QPN), Err: wc.Status}
}

// WCOpcode is the kind of a completed work request.
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
	WCTSO             WCOpcode = 7
	WCFlush           WCOpcode = 8
	WCAtomicWrite     WCOpcode = 9
	WCRecv            WCOpcode = 128
	WCRecvRDMAWithImm WCOpcode = 129
)

var wcOpcodeNames = map[WCOpcode]string{
	WCSend: "SEND", WCRDMAWrite: "RDMA_WRITE", WCRDMARead: "RDMA_READ", WCCompareSwap: "COMP_SWAP",
	WCFetchAdd: "FETCH_ADD", WCBindMW: "BIND_MW", WCLocalInv: "LOCAL_INV",
	WCTSO: "TSO", WCFlush: "FLUSH", WCAtomicWrite: "ATOMIC_WRITE",
	WCRecv: "RECV", WCRecvRDMAWithImm: "RECV_RDMA_WITH_IMM",
}

func (o WCOpcode) String() string {
	if s, ok := wcOpcodeNames[o]; ok {
		return s
	}
	return fmt.Sprintf("WCOpcode(%d)", uint32(o))
}

// WCFlags describe a completed receive; the values combine with |.
//
// C: enum ibv_wc_flags
type WCFlags uint32

const (
	// WCGRH means that the message had a global route header. On UD QPs, it is in the first
	// 40 bytes of the buffer; on other QPs, it is not in the buffer.
	WCGRH WCFlags = 1 << 0
	// WCWithImm means that Imm is valid.
	WCWithImm WCFlags = 1 << 1
	// WCIPCsumOK means that the message is a raw IPv4 packet and that the checksums of the IP
	// header and of TCP or UDP are correct. Without it, they are wrong or were not checked.
	WCIPCsumOK WCFlags = 1 << 2
	// WCWithInv means that InvalidatedRKey is valid and Imm is not.
	WCWithInv WCFlags = 1 << 3
)

// Status is the result of a work request. Every value except StatusSuccess is an error.
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
	StatusRemInvRDReqErr = Status(abi.IB_WC_REM_INV_RD_REQ_ERR)
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
	StatusRemInvRDReqErr: "remote invalid datagram request",
	StatusRemAbortErr:    "remote aborted",
	StatusFatalErr:       "fatal error",
	StatusRespTimeoutErr: "response timeout",
	StatusGeneralErr:     "general error",
}

// Error returns a description of the status, or Status(27) for an unknown one.
func (s Status) Error() string {
	if t, ok := statusTexts[s]; ok {
		return t
	}
	return fmt.Sprintf("Status(%d)", uint32(s))
}

func (s Status) String() string { return s.Error() }

// WCExt has further fields of a completion, for CQs that were created with them. They are not part
// of WC, so that other CQs don't pay for them.
//
// C: the ibv_wc_read_… functions
type WCExt struct {
	Timestamp uint64 // ticks of the device's clock (DeviceAttr.HCACoreClock)
	WallClock int64  // the same in nanoseconds since 1970, by the host's clock
	FlowTag   uint32 // of the flow rule that the raw packet matched (flow.Tag), 0 for none
	VLAN      uint16 // tag that the device stripped from the raw packet, 0 for none: see QPCVLANStripping
	Flags     WCExtFlags
	// SourceGID is the address of a message's sender for which the PD has no AH, with WCExtSourceGID.
	// It is zero if there is an AH: see WC.SLID.
	SourceGID GID
}

// WCExtFlags describe a received raw packet; the values combine with |.
type WCExtFlags uint16

const (
	// WCExtL3OK means that the device found an IPv4 header with a correct checksum, or an
	// IPv6 header.
	WCExtL3OK WCExtFlags = 1 << iota
	// WCExtL4OK means that the device found a TCP or UDP header with a correct checksum.
	WCExtL4OK
	// WCExtIPv4 and WCExtIPv6 mean that the packet has such a header.
	WCExtIPv4
	WCExtIPv6
	// WCExtTCP and WCExtUDP mean that the packet has such a header.
	WCExtTCP
	WCExtUDP

	// WCExtChecksumOK means that both checksums are correct.
	WCExtChecksumOK = WCExtL3OK | WCExtL4OK
)

// WCExtMask selects fields of a WCExt; the values combine with |.
//
// C: enum ibv_create_cq_wc_flags, the part that struct ibv_wc lacks
type WCExtMask uint32

// One bit for each field.
const (
	// WCExtTimestamp selects the time of the completion by the device's clock.
	WCExtTimestamp WCExtMask = 1 << iota
	WCExtFlowTag             // FlowTag
	WCExtVLAN                // VLAN
	WCExtChecksum            // Flags
	// WCExtWallClock selects the same time by the host's clock. The kernel compares both
	// clocks from time to time and publishes a factor. Each poll reads the factor once,
	// without a system call, so differences of times from one poll are exact. If the host's
	// clock was set back between two polls, a completion may seem older than an earlier one.
	WCExtWallClock
	// WCExtSourceGID selects SourceGID. Only EFA has it. C: EFADV_WC_EX_WITH_SGID
	WCExtSourceGID
)

// CQFlags are options of a new CQ; the values combine with |.
//
// C: enum ibv_create_cq_attr_flags
type CQFlags uint32

// CQIgnoreOverrun means that the device need not detect overruns of the CQ.
const CQIgnoreOverrun CQFlags = abi.IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN
