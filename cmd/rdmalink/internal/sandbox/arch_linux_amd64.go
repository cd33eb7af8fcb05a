package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// older are the system calls that newer architectures do without.
var older = map[int]func(*call) result{
	unix.SYS_OPEN:     (*call).open,
	unix.SYS_STAT:     (*call).stat,
	unix.SYS_LSTAT:    (*call).lstat,
	unix.SYS_ACCESS:   (*call).access,
	unix.SYS_READLINK: (*call).readlink,
}
