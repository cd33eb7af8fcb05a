package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// older are the system calls that newer architectures do without.
var older = map[int]handler{
	unix.SYS_DUP2:     dupLow,
	unix.SYS_OPEN:     {nil, (*call).open},
	unix.SYS_STAT:     {nil, (*call).stat},
	unix.SYS_LSTAT:    {nil, (*call).lstat},
	unix.SYS_ACCESS:   {nil, (*call).access},
	unix.SYS_READLINK: {nil, (*call).readlink},
}
