package sandbox

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// emulate carries out the instruction at which a thread stopped, but for the store itself,
// and returns the bytes that it stores. Device registers read as 0.
func emulate(thread *process) (stored []byte, err error) {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(thread.id, &regs); err != nil {
		return nil, err
	}
	code := thread.code(regs.Rip)
	if code == nil { // the process is gone: else it could not have run this
		return nil, unix.ESRCH
	}
	s, ok := decodeStore(code)
	if !ok {
		return nil, fmt.Errorf("a program accesses a device's registers by an instruction that is not known: % x", code)
	}
	general := generalRegisters(&regs)
	var v uint64
	switch s.source {
	case fromImmediate:
		v = s.immediate
	case fromHighByte:
		v = *general[s.register] >> 8
	case fromVector:
		var fp floatingPoint
		if err := getFloatingPoint(thread.id, &fp); err != nil {
			return nil, err
		}
		stored = fp.XMM[s.register][:]
	case fromExchange:
		v, *general[s.register] = *general[s.register], 0
	default:
		v = *general[s.register]
	}
	if s.source != fromVector {
		stored = binary.LittleEndian.AppendUint64(nil, v)
	}
	regs.Rip += uint64(s.length)
	return stored[:s.size], unix.PtraceSetRegs(thread.id, &regs)
}

// code reads an instruction, which may be the last of its page.
func (p *process) code(addr uint64) []byte {
	b := make([]byte, longestInstruction)
	if p.read(addr, b) == nil {
		return b
	}
	page := uint64(unix.Getpagesize())
	b = b[:min(longestInstruction, page-addr%page)]
	if p.read(addr, b) != nil {
		return nil
	}
	return b
}

// generalRegisters returns the registers in the order of their numbers in instructions.
func generalRegisters(r *unix.PtraceRegs) [16]*uint64 {
	return [16]*uint64{&r.Rax, &r.Rcx, &r.Rdx, &r.Rbx, &r.Rsp, &r.Rbp, &r.Rsi, &r.Rdi,
		&r.R8, &r.R9, &r.R10, &r.R11, &r.R12, &r.R13, &r.R14, &r.R15}
}

const canTrap = true
