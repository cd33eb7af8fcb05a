package verbs

import (
	"fmt"
	"math"
)

// SendWR is a work request for the send queue. PostSend copies its slices and the objects that it
// points to, so these may be reused when PostSend returns. The memory that SGL names, and the AH,
// belong to the device until the request has completed.
//
// C: struct ibv_send_wr
type SendWR struct {
	WRID   uint64 // copied to the completion
	Opcode Opcode
	Flags  SendFlags
	SGL    []SGE
	Inline []byte // data that is copied into the request, instead of SGL (C: IBV_SEND_INLINE)

	RemoteAddr uint64 // RDMA read and write, atomics, flush
	RKey       uint32 // with RemoteAddr
	// Imm is the immediate data of OpSendImm and OpRDMAWriteImm, a number that is sent in
	// big-endian order (C: imm_data is its htonl).
	Imm            uint32
	InvalidateRKey uint32 // key to invalidate: the peer's for OpSendWithInv, a local one for OpLocalInv
	SRQN           uint32 // XRC: the peer's SRQ, which receives the message or whose domain has the memory

	// CompareAdd is the comparand of OpCompareSwap and the addend of OpFetchAdd. Swap is the
	// new value of OpCompareSwap. Both are in the peer's byte order. The old value is stored
	// in SGL (8 bytes).
	CompareAdd, Swap uint64

	AH         AH     // UD, SRD and DCI: the peer's address
	RemoteQPN  uint32 // UD, SRD and DCI: the peer's QP
	RemoteQKey uint32 // UD and SRD: its Q_Key; if the top bit is set, the QP's own Q_Key is sent (not on rxe and EFA)
	DCKey      uint64 // DCI: the key of the peer's DCT

	Flush Flush   // OpFlush
	Bind  *BindMW // OpBindMW

	MSS  uint16 // OpTSO: bytes of SGL in each packet, the last of which may have fewer
	VLAN uint16 // raw packets: the VLAN tag (priority and VID) to insert before the EtherType; 0 means none

	DCStream uint16 // DCI with streams: the request's stream; see DCStreams
}

// RecvWR is a work request for a receive queue. The rules of [SendWR] apply.
//
// C: struct ibv_recv_wr
type RecvWR struct {
	WRID uint64
	SGL  []SGE
}

// SGE is a scatter/gather entry, a piece of registered memory.
//
// C: struct ibv_sge
type SGE struct {
	Addr   uint64
	Length uint32 // bytes
	LKey   uint32
}

// BadLength is the Length of an invalid SGE. uverbs.MR.SGE returns one for a range that is not within the region, for a
// closed region, and for a length of 4 GiB or more. Work requests with such an SGE are refused.
const BadLength = math.MaxUint32

// Opcode is the operation of a send work request.
//
// C: enum ibv_wr_opcode
type Opcode uint32

// The opcodes. A QP's type and its driver determine which it supports: see
// uverbs.Device.Supports.
const (
	OpRDMAWrite    Opcode = 0
	OpRDMAWriteImm Opcode = 1
	OpSend         Opcode = 2
	OpSendImm      Opcode = 3
	OpRDMARead     Opcode = 4
	OpCompareSwap  Opcode = 5
	OpFetchAdd     Opcode = 6
	OpLocalInv     Opcode = 7
	OpBindMW       Opcode = 8
	OpSendWithInv  Opcode = 9
	// OpTSO sends a TCP segment that the device cuts into packets. Inline has the headers, from
	// Ethernet to TCP, of at most uverbs.QPOptions.MaxTSOHeader bytes, and SGL has the payload.
	// The device repeats the headers before each MSS bytes of payload and adapts lengths,
	// sequence numbers and flags. With SendIPCsum it also fills in the checksums.
	// DeviceAttr.TSO has the limits.
	OpTSO         Opcode = 10
	OpReadWithInv Opcode = 11
	OpFlush       Opcode = 14
	OpAtomicWrite Opcode = 15 // writes the 8 bytes of Inline atomically to a multiple of 8
)

var opcodeNames = map[Opcode]string{
	OpRDMAWrite: "RDMA_WRITE", OpRDMAWriteImm: "RDMA_WRITE_WITH_IMM", OpSend: "SEND", OpSendImm: "SEND_WITH_IMM",
	OpRDMARead: "RDMA_READ", OpCompareSwap: "ATOMIC_CMP_AND_SWP", OpFetchAdd: "ATOMIC_FETCH_AND_ADD",
	OpLocalInv: "LOCAL_INV", OpBindMW: "BIND_MW", OpSendWithInv: "SEND_WITH_INV", OpTSO: "TSO", OpReadWithInv: "RDMA_READ_WITH_INV",
	OpFlush: "FLUSH", OpAtomicWrite: "ATOMIC_WRITE",
}

func (o Opcode) String() string {
	if s, ok := opcodeNames[o]; ok {
		return s
	}
	return fmt.Sprintf("Opcode(%d)", uint32(o))
}

// SendFlags are options of a send work request; the values combine with |.
//
// C: enum ibv_send_flags
type SendFlags uint32

const (
	// SendFence delays the request until earlier reads and atomics are complete.
	SendFence SendFlags = 1 << iota
	// SendSignaled requests a completion even if the request succeeds.
	SendSignaled
	// SendSolicited raises a solicited event at the receiver.
	SendSolicited
	// SendIPCsum makes the device fill in the checksums of a raw packet: those of the IPv4
	// header and of TCP or UDP. The device needs DeviceCapRawIPCsum.
	SendIPCsum SendFlags = 1 << 4
)

// Flush has the arguments of OpFlush. When the request completes, earlier writes to the memory at
// RemoteAddr are visible or durable.
//
// C: the arguments of ibv_wr_flush
type Flush struct {
	Length uint32 // bytes from RemoteAddr on; ignored with FlushMR
	Type   FlushType
	Level  FlushLevel
}

// FlushType is the guarantee that OpFlush makes; the values combine with |.
//
// C: enum ibv_placement_type
type FlushType uint8

// The MR and the QP need the Access flag of the same name.
const (
	FlushGlobal     FlushType = 1 << 0 // every reader sees the data
	FlushPersistent FlushType = 1 << 1 // the data survives a loss of power
)

// FlushLevel selects the memory that OpFlush affects.
//
// C: enum ibv_selectivity_level
type FlushLevel uint8

// The levels: the range that the work request names, or the whole region of its RKey.
const (
	FlushRange FlushLevel = 0
	FlushMR    FlushLevel = 1
)
