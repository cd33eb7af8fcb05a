package uverbs

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

func makedev(major, minor uint32) uint64 { return unix.Mkdev(major, minor) }

func nodeHint(err error, info DeviceInfo) string {
	switch {
	case errors.Is(err, fs.ErrNotExist) && info.rdev != 0:
		return fmt.Sprintf("make the node (`mknod -m 666 %s c %d %d`), or give it to the container (--device %s)",
			info.Node, unix.Major(info.rdev), unix.Minor(info.rdev), info.Node)
	case errors.Is(err, unix.EACCES):
		return fmt.Sprintf("allow reading and writing it (`chmod 666 %s`)", info.Node)
	case errors.Is(err, unix.EPERM):
		return fmt.Sprintf("the container's device cgroup forbids %s (--device %s), or %s", info.Node, info.Node, contextHint(err))
	}
	return contextHint(err)
}
