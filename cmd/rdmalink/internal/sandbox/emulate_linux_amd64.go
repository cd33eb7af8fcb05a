package sandbox

import (
	"encoding/binary"
	"errors"
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

// callInstead makes a thread that stopped at the end of a system call carry out others with one argument, and return
// the result of the first. step runs the thread to the begin of a call, and then to its end.
func callInstead(thread int, calls []int, arg int, step func() error) error {
	var before, regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(thread, &before); err != nil {
		return err
	}
	after := before
	after.Orig_rax = ^uint64(0) // nothing is to be restarted
	for i, nr := range calls {
		regs = after
		regs.Rip -= 2 // the instruction SYSCALL
		regs.Rax, regs.Rdi = uint64(nr), uint64(arg)
		err := errors.Join(unix.PtraceSetRegs(thread, &regs), step(), step(), unix.PtraceGetRegs(thread, &regs))
		if err != nil {
			return err
		}
		if i == 0 {
			before.Rax = regs.Rax
		}
	}
	after.Rax = before.Rax
	return unix.PtraceSetRegs(thread, &after)
}

const canTrap = true
