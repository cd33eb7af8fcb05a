package sandbox

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
)

// handler answers a system call under some conditions.
type handler struct {
	conditions []condition
	answer     func(*call) result
}

func on(fdArg int, answer func(*call) result, also ...condition) handler {
	return handler{ours(0, fdArg, also...).conditions, answer}
}

// handlers are the system calls that the supervisor answers. Those with paths all come to
// it, because a filter can't read memory.
var handlers = map[int][]handler{
	unix.SYS_OPENAT:     {{nil, (*call).openat}},
	unix.SYS_OPENAT2:    {{nil, (*call).openat2}},
	unix.SYS_NEWFSTATAT: {{nil, (*call).fstatat}},
	unix.SYS_STATX:      {{nil, (*call).statx}},
	unix.SYS_FACCESSAT:  {{nil, (*call).faccessat}},
	unix.SYS_FACCESSAT2: {{nil, (*call).faccessat}},
	unix.SYS_READLINKAT: {{nil, (*call).readlinkat}},

	unix.SYS_GETXATTR:   {{nil, (*call).xattr}},
	unix.SYS_LGETXATTR:  {{nil, (*call).xattr}},
	unix.SYS_LISTXATTR:  {{nil, (*call).xattr}},
	unix.SYS_LLISTXATTR: {{nil, (*call).xattr}},

	unix.SYS_IOCTL:  {{[]condition{is(1, abi.RDMA_VERBS_IOCTL)}, (*call).ioctl}},
	unix.SYS_FSTAT:  {on(0, (*call).fstat)},
	unix.SYS_WRITE:  {on(0, (*call).writeFile)},
	unix.SYS_WRITEV: {on(0, (*call).writevFile)},
	unix.SYS_READ:   {on(0, (*call).readFile)},
	unix.SYS_MMAP:   {on(4, (*call).mmap)},
	unix.SYS_DUP:    {on(0, (*call).dup)},
	unix.SYS_FCNTL: {
		on(0, (*call).dup, is(1, unix.F_DUPFD)),
		on(0, (*call).dup, is(1, unix.F_DUPFD_CLOEXEC)),
	},

	unix.SYS_SOCKET:      {{[]condition{is(0, unix.AF_NETLINK), is(2, unix.NETLINK_RDMA)}, (*call).socket}},
	unix.SYS_BIND:        {on(0, (*call).bind)},
	unix.SYS_CONNECT:     {on(0, (*call).bind)},
	unix.SYS_GETSOCKNAME: {on(0, (*call).getsockname)},
	unix.SYS_SETSOCKOPT:  {on(0, (*call).setsockopt)},
	unix.SYS_GETSOCKOPT:  {on(0, (*call).getsockopt)},
	unix.SYS_SENDTO:      {on(0, (*call).sendto)},
	unix.SYS_SENDMSG:     {on(0, (*call).sendmsg)},
	unix.SYS_RECVFROM:    {on(0, (*call).recvfrom)},
	unix.SYS_RECVMSG:     {on(0, (*call).recvmsg)},
}

// table is handlers with those of this architecture.
var table = func() map[int][]handler {
	all := maps.Clone(handlers)
	for nr, answer := range older {
		all[nr] = []handler{{nil, answer}}
	}
	return all
}()

// rules are the filter's.
func rules() (all []rule) {
	for _, nr := range slices.Sorted(maps.Keys(table)) {
		for _, h := range table[nr] {
			all = append(all, rule{nr, h.conditions})
		}
	}
	return all
}

// handle finds the answer to a call. The filter has checked the conditions: handlers of
// one call do the same.
func (c *call) handle() result {
	h := table[int(c.Nr)]
	if len(h) == 0 {
		return goOn
	}
	return h[0].answer(c)
}
