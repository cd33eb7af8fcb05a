//go:build linux

package trace

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// syscallInfo is the kernel's struct ptrace_syscall_info, as far as it is used.
type syscallInfo struct {
	op   uint8
	_    [3]uint8
	arch uint32
	ip   uint64
	sp   uint64
	data [7]uint64 // of an entry: the number and the arguments; of an exit: the result
}

// What the thread is stopped at.
const (
	atEntry = 1
	atExit  = 2
)

// stoppedAt tells at which system call a thread is stopped.
func stoppedAt(tid int) (info syscallInfo, err error) {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return info, errno
	}
	return info, nil
}
