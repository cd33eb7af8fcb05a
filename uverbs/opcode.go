package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

// Opcode is what a send work request asks for.
//
// C: enum ibv_wr_opcode
type Opcode = driver.Opcode

// Which of them a QP takes depends on its type and on the driver: [Device.Supports] tells.
const (
	OpRDMAWrite    Opcode = driver.OpRDMAWrite
	OpRDMAWriteImm Opcode = driver.OpRDMAWriteImm
	OpSend         Opcode = driver.OpSend
	OpSendImm      Opcode = driver.OpSendImm
	OpRDMARead     Opcode = driver.OpRDMARead
	OpCompareSwap  Opcode = driver.OpCompareSwap
	OpFetchAdd     Opcode = driver.OpFetchAdd
	OpLocalInv     Opcode = driver.OpLocalInv
	OpBindMW       Opcode = driver.OpBindMW
	OpSendWithInv  Opcode = driver.OpSendWithInv
	OpReadWithInv  Opcode = driver.OpReadWithInv
	OpFlush        Opcode = driver.OpFlush
	OpAtomicWrite  Opcode = driver.OpAtomicWrite
)
