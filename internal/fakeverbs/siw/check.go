package siw

import "github.com/goverbs/goverbs/internal/abi"

// sendFlags are those that user space may set.
const sendFlags = abi.SIW_WQE_VALID | abi.SIW_WQE_INLINE | abi.SIW_WQE_SIGNALLED | abi.SIW_WQE_SOLICITED | abi.SIW_WQE_READ_FENCE

// reads tells of an operation that fills the first SGE, whatever their number is.
func reads(op uint8) bool { return op == abi.SIW_OP_READ || op == abi.SIW_OP_READ_LOCAL_INV }

// check notes what the driver refuses. Such a send stays where it is, and so does all behind it.
func (q *QP) check(s *abi.SiwSqe) {
	note := func(format string, args ...any) {
		q.qp.Kernel().Device.Note("QP %d: send %d: "+format, append([]any{q.qp.Num, s.Id}, args...)...)
	}
	if _, ok := opcodes[s.Opcode]; !ok {
		note("there is no operation %d", s.Opcode)
	}
	if odd := s.Flags &^ sendFlags; odd != 0 {
		note("flags %#x are the driver's own", odd)
	}
	if reads(s.Opcode) && s.Flags&abi.SIW_WQE_READ_FENCE != 0 {
		note("a read with a fence")
	}
	if s.Flags&abi.SIW_WQE_INLINE == 0 {
		if s.NumSge > abi.SIW_MAX_SGE {
			note("operation %d with %d SGEs", s.Opcode, s.NumSge)
		}
		return
	}
	if n := s.Sge[0].Length; s.Opcode != abi.SIW_OP_SEND && s.Opcode != abi.SIW_OP_WRITE || n > abi.SIW_MAX_INLINE {
		note("operation %d with %d bytes inline", s.Opcode, n)
	}
}
