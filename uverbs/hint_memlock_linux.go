package uverbs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/verbs"
)

// mrHint tells why memory could not be registered.
func mrHint(err error, access verbs.Access, size int) string {
	switch {
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EPERM):
		return memlockHint(size)
	case errors.Is(err, unix.EAGAIN):
		return limitHint
	case errors.Is(err, unix.EFAULT):
		return "the memory is not mapped, or not writable although the access flags say so"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return accessHint(access)
	}
	return ""
}

// memlockHint speaks of RLIMIT_MEMLOCK, against which pinned memory counts
// unless the process has CAP_IPC_LOCK.
func memlockHint(size int) string {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lim) != nil || lim.Cur == unix.RLIM_INFINITY {
		return ""
	}
	return fmt.Sprintf("RLIMIT_MEMLOCK allows this process %d KiB of pinned memory and the region needs %d KiB on top of what is pinned: raise it (`ulimit -l`, LimitMEMLOCK=, --ulimit memlock=-1) or give CAP_IPC_LOCK (siw of Linux 6.1 wants the limit raised all the same)",
		lim.Cur>>10, (size+1023)>>10)
}
