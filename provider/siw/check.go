package siw

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// The elements of sendOpcodes: siw's number of an opcode, and at least one of these bits.
const (
	isOpcode = 0x0f
	isInline = 0x20 // takes inline data
	isPlain  = 0x40 // takes an SGL, with no special rules
	isRead   = 0x80
)

var sendOpcodes = [...]uint8{
	verbs.OpSend:        isPlain | isInline | abi.SIW_OP_SEND,
	verbs.OpSendWithInv: isPlain | abi.SIW_OP_SEND_REMOTE_INV,
	verbs.OpRDMAWrite:   isPlain | isInline | abi.SIW_OP_WRITE,
	verbs.OpRDMARead:    isRead | abi.SIW_OP_READ,
	verbs.OpReadWithInv: isRead | abi.SIW_OP_READ_LOCAL_INV,
}

// sendOpcode returns an opcode's element of sendOpcodes, or 0 if siw does not support it.
func sendOpcode(op verbs.Opcode) uint8 {
	if int64(op) < int64(len(sendOpcodes)) {
		return sendOpcodes[op]
	}
	return 0
}

// Supports implements driver.Supporter.
func (*siwContext) Supports(t verbs.QPType, op verbs.Opcode) bool {
	return t == verbs.QPTypeRC && sendOpcode(op) != 0
}

// wireFlags converts a send's flags to siw's. Each of siw's bits is a multiple of verbs's,
// so the conversion needs no branches. Other flags have no meaning to siw.
func wireFlags(f verbs.SendFlags) uint32 {
	return uint32(f&verbs.SendSignaled)*(abi.SIW_WQE_SIGNALLED/uint32(verbs.SendSignaled)) |
		uint32(f&verbs.SendSolicited)*(abi.SIW_WQE_SOLICITED/uint32(verbs.SendSolicited)) |
		uint32(f&verbs.SendFence)*(abi.SIW_WQE_READ_FENCE/uint32(verbs.SendFence))
}

// check returns an error for a request that the kernel would answer by ending the
// connection.
func (q *qp) check(wr *verbs.SendWR, op uint8, flags verbs.SendFlags, sgl []verbs.SGE, inline []byte) error {
	if op == 0 {
		return fmt.Errorf("%w: siw has no %v", verbs.ErrNotSupported, wr.Opcode)
	}
	length, err := driver.SumSGL(sgl, q.maxSGE)
	switch {
	case err != nil:
		return err
	case length > maxMessage:
		return fmt.Errorf("%w: %d bytes in all, siw sends at most %d", verbs.ErrInvalidWR, length, maxMessage)
	case op&isRead != 0 && (len(sgl) != 1 || inline != nil):
		return fmt.Errorf("%w: a read on siw takes exactly one SGE", verbs.ErrInvalidWR)
	case op&isRead != 0 && flags&verbs.SendFence != 0:
		return fmt.Errorf("%w: siw can't fence a read", verbs.ErrInvalidWR)
	case inline == nil:
		return nil
	case op&isInline == 0:
		return fmt.Errorf("%w: siw takes inline data for SEND and RDMA_WRITE only", verbs.ErrInvalidWR)
	case len(sgl) > 0:
		return fmt.Errorf("%w: both SGL and Inline are set", verbs.ErrInvalidWR)
	case len(inline) > q.maxInline:
		return fmt.Errorf("%w: %d bytes inline, siw takes %d (send more from registered memory, with SGL)", verbs.ErrInvalidWR, len(inline), q.maxInline)
	}
	return nil
}
