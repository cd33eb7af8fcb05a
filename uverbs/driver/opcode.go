package driver

import "fmt"

// Opcode is what a send work request asks for.
//
// C: enum ibv_wr_opcode
type Opcode uint32

// Which of them a QP takes depends on its type and on the driver: [uverbs.Device.Supports]
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
