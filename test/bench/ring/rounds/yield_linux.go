package rounds

import "syscall"

// yield yields the processor to other processes without involving the Go scheduler.
func yield() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
