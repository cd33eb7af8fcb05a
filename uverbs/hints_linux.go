package uverbs

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/verbs"
)

// registerHint explains why memory could not be registered, other than for a limit of memory.
func registerHint(err error, access verbs.Access) string {
	switch {
	case errors.Is(err, unix.EAGAIN):
		return limitHint
	case errors.Is(err, unix.EFAULT):
		return "the memory is not mapped, or not writable although the access flags say so, or a shared mapping of a file on disk: Linux pins pages of those for reading only (use a private mapping, tmpfs or hugetlbfs)"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return accessHint(access)
	}
	return ""
}

// memlockHint explains RLIMIT_MEMLOCK. Pinned memory counts against it unless the process has
// CAP_IPC_LOCK.
func memlockHint(size int) string {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lim) != nil || lim.Cur == unix.RLIM_INFINITY {
		return ""
	}
	return fmt.Sprintf("RLIMIT_MEMLOCK allows this process %d KiB of pinned memory and the region needs %d KiB more than is pinned already: raise the limit (`ulimit -l`, LimitMEMLOCK=, --ulimit memlock=-1) or grant CAP_IPC_LOCK (for siw of Linux 6.1 only the limit counts)",
		lim.Cur>>10, kib(size))
}

func makedev(major, minor uint32) uint64 { return unix.Mkdev(major, minor) }

func nodeHint(err error, info DeviceInfo) string {
	switch {
	case errors.Is(err, fs.ErrNotExist) && info.rdev != 0:
		return fmt.Sprintf("create the node (`mknod -m 666 %s c %d %d`), or pass it to the container (--device %s)",
			info.Node, unix.Major(info.rdev), unix.Minor(info.rdev), info.Node)
	case errors.Is(err, unix.EACCES):
		return fmt.Sprintf("allow reading and writing it (`chmod 666 %s`)", info.Node)
	case errors.Is(err, unix.EPERM):
		return fmt.Sprintf("the container's device cgroup forbids %s (--device %s), or %s", info.Node, info.Node, contextHint(err))
	}
	return contextHint(err)
}
