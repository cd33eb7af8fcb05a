//go:build linux

package trace

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// syscallInfo is the used part of the kernel's struct ptrace_syscall_info.
type syscallInfo struct {
	op   uint8
	_    [3]uint8
	arch uint32
	ip   uint64
	sp   uint64
	data [7]uint64 // of an entry: the number and the arguments; of an exit: the result
}

// Reasons for a stop of the thread.
const (
	atEntry = 1
	atExit  = 2
)

// stoppedAt returns the system call at which a thread is stopped.
func stoppedAt(tid int) (info syscallInfo, err error) {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return info, errno
	}
	return info, nil
}
