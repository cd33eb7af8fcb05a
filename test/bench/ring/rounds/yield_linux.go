package rounds

import "syscall"

// yield lets others have the processor, without the Go scheduler's knowledge.
func yield() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
