package verbs

import (
	"fmt"
	"math"
)

// SendWR is a work request for the send queue. Its slices, and what its pointers
// lead to, are read before PostSend returns and may be reused then; the memory
// that SGL names belongs to the device until the request completed, and so does
// the AH.
//
// C: struct ibv_send_wr
type SendWR struct {
	WRID   uint64 // comes back in the completion
	Opcode Opcode
	Flags  SendFlags
	SGL    []SGE
	Inline []byte // data taken into the request itself, instead of SGL (C: IBV_SEND_INLINE)

	RemoteAddr uint64 // RDMA read and write, atomics, flush
	RKey       uint32 // with RemoteAddr
	// Imm is for OpSendImm and OpRDMAWriteImm: a number, which travels most
	// significant byte first (C: imm_data is htonl of it).
	Imm            uint32
	InvalidateRKey uint32 // OpSendWithInv: the peer's key that ends; OpLocalInv: the own one
	SRQN           uint32 // XRC: the peer's SRQ, which receives or whose domain's memory it is

	// CompareAdd is what OpCompareSwap compares with, and what OpFetchAdd adds;
	// Swap is what OpCompareSwap stores. Both in the peers' own byte order. The
	// old value, 8 bytes, goes to SGL.
	CompareAdd, Swap uint64

	AH         *AH    // UD: the way to the peer
	RemoteQPN  uint32 // UD: the peer's QP
	RemoteQKey uint32 // UD: its Q_Key; with the top bit set, the own QP's is sent, but not by rxe

	Flush Flush   // OpFlush
	Bind  *BindMW // OpBindMW
}

// RecvWR is a work request for a receive queue, with the rules of [SendWR].
//
// C: struct ibv_recv_wr
type RecvWR struct {
	WRID uint64
	SGL  []SGE
}

// SGE names a piece of registered memory.
//
// C: struct ibv_sge
type SGE struct {
	Addr   uint64
	Length uint32 // bytes
	LKey   uint32
}

// BadLength is the Length of an SGE that stands for a piece of memory that no SGE can
// name: uverbs.MR.SGE was asked for 4 GiB or more, or for less than nothing. A work
// request with one is refused.
const BadLength = math.MaxUint32

// Opcode is what a send work request asks for.
//
// C: enum ibv_wr_opcode
type Opcode uint32

// Which of them a QP takes depends on its type and on the driver: uverbs.Device.Supports
// tells.
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
	OpReadWithInv  Opcode = 11
	OpFlush        Opcode = 14
	OpAtomicWrite  Opcode = 15 // the 8 bytes of Inline, all at once, to a multiple of 8
)

var opcodeNames = map[Opcode]string{
	OpRDMAWrite: "RDMA_WRITE", OpRDMAWriteImm: "RDMA_WRITE_WITH_IMM", OpSend: "SEND", OpSendImm: "SEND_WITH_IMM",
	OpRDMARead: "RDMA_READ", OpCompareSwap: "ATOMIC_CMP_AND_SWP", OpFetchAdd: "ATOMIC_FETCH_AND_ADD",
	OpLocalInv: "LOCAL_INV", OpBindMW: "BIND_MW", OpSendWithInv: "SEND_WITH_INV", OpReadWithInv: "RDMA_READ_WITH_INV",
	OpFlush: "FLUSH", OpAtomicWrite: "ATOMIC_WRITE",
}

func (o Opcode) String() string {
	if s, ok := opcodeNames[o]; ok {
		return s
	}
	return fmt.Sprintf("Opcode(%d)", uint32(o))
}

// SendFlags refine a send work request; the values combine with |.
//
// C: enum ibv_send_flags
type SendFlags uint32

const (
	// SendFence holds the request back until earlier reads and atomics are done.
	SendFence SendFlags = 1 << iota
	// SendSignaled asks for a completion even of a success.
	SendSignaled
	// SendSolicited raises a solicited event at the receiver.
	SendSolicited
	// SendIPCsum has the device fill in the checksums of a raw packet: of the header of IPv4,
	// and of TCP or UDP. Devices with DeviceCapRawIPCsum can do that.
	SendIPCsum SendFlags = 1 << 4
)

// Flush is what OpFlush asks of the memory at RemoteAddr: that what was written
// there before be visible, or durable, when the request completes.
//
// C: the arguments of ibv_wr_flush
type Flush struct {
	Length uint32 // bytes from RemoteAddr on; ignored with FlushMR
	Type   FlushType
	Level  FlushLevel
}

// FlushType is where data must have got to; the values combine with |.
//
// C: enum ibv_placement_type
type FlushType uint8

// The MR and the QP must allow each with the Access of the same name.
const (
	FlushGlobal     FlushType = 1 << 0 // every reader sees it
	FlushPersistent FlushType = 1 << 1 // it survives a loss of power
)

// FlushLevel says which memory is meant.
//
// C: enum ibv_selectivity_level
type FlushLevel uint8

// Either the range that the work request names, or the whole region of its RKey.
const (
	FlushRange FlushLevel = 0
	FlushMR    FlushLevel = 1
)
