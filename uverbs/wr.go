package uverbs

import "fmt"

// SGE names a piece of registered memory.
//
// C: struct ibv_sge
type SGE struct {
	Addr   uint64
	Length uint32 // bytes
	LKey   uint32
}

// Opcode is what a send work request asks for.
//
// C: enum ibv_wr_opcode
type Opcode uint32

// Which of them a QP takes depends on its type and on the driver.
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
)

var opcodeNames = map[Opcode]string{
	OpRDMAWrite: "RDMA_WRITE", OpRDMAWriteImm: "RDMA_WRITE_WITH_IMM", OpSend: "SEND", OpSendImm: "SEND_WITH_IMM",
	OpRDMARead: "RDMA_READ", OpCompareSwap: "ATOMIC_CMP_AND_SWP", OpFetchAdd: "ATOMIC_FETCH_AND_ADD",
	OpLocalInv: "LOCAL_INV", OpBindMW: "BIND_MW", OpSendWithInv: "SEND_WITH_INV", OpReadWithInv: "RDMA_READ_WITH_INV",
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
	// SendFence holds the request back until earlier reads are done.
	SendFence SendFlags = 1 << iota
	// SendSignaled asks for a completion even of a success.
	SendSignaled
	// SendSolicited raises a solicited event at the receiver.
	SendSolicited
)

// SendWR is a work request for the send queue. Its slices are read before
// PostSend returns and may be reused then; the memory that SGL names belongs to
// the device until the request completed.
//
// C: struct ibv_send_wr
type SendWR struct {
	WRID           uint64 // comes back in the completion
	Opcode         Opcode
	Flags          SendFlags
	SGL            []SGE
	Inline         []byte // data taken into the request itself, instead of SGL (C: IBV_SEND_INLINE)
	RemoteAddr     uint64 // RDMA read and write
	RKey           uint32 // RDMA read and write
	InvalidateRKey uint32 // OpSendWithInv: the peer's key that ends
}

// RecvWR is a work request for a receive queue, with the rules of [SendWR].
//
// C: struct ibv_recv_wr
type RecvWR struct {
	WRID uint64
	SGL  []SGE
}
