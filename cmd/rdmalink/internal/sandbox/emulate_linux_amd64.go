package sandbox

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// emulate carries out the instruction at which a thread stopped, but for the store itself,
// and returns how many bytes it stores, and the first eight of them. Registers read as 0.
func emulate(thread process) (size int, v uint64, err error) {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(int(thread), &regs); err != nil {
		return 0, 0, err
	}
	code := thread.code(regs.Rip)
	if code == nil { // the process is gone: else it could not have run this
		return 0, 0, unix.ESRCH
	}
	s, ok := decodeStore(code)
	if !ok {
		return 0, 0, fmt.Errorf("a program accesses a device's registers by an instruction that is not known: % x", code)
	}
	general := generalRegisters(&regs)
	switch s.source {
	case fromImmediate:
		v = s.immediate
	case fromHighByte:
		v = *general[s.register] >> 8
	case fromVector:
		var fp floatingPoint
		if err := getFloatingPoint(int(thread), &fp); err != nil {
			return 0, 0, err
		}
		v = binary.LittleEndian.Uint64(fp.XMM[s.register][:])
	case fromExchange:
		v, *general[s.register] = *general[s.register], 0
	default:
		v = *general[s.register]
	}
	if s.size < 8 {
		v &= 1<<(8*s.size) - 1
	}
	regs.Rip += uint64(s.length)
	return s.size, v, unix.PtraceSetRegs(int(thread), &regs)
}

// code reads an instruction, which may be the last of its page.
func (p process) code(addr uint64) []byte {
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

// generalRegisters are in the order of instructions.
func generalRegisters(r *unix.PtraceRegs) [16]*uint64 {
	return [16]*uint64{&r.Rax, &r.Rcx, &r.Rdx, &r.Rbx, &r.Rsp, &r.Rbp, &r.Rsi, &r.Rdi,
		&r.R8, &r.R9, &r.R10, &r.R11, &r.R12, &r.R13, &r.R14, &r.R15}
}

const canTrap = true
