//go:build linux

package procmaps

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// procmapQuery is struct procmap_query of Linux 6.11.
type procmapQuery struct {
	Size, Flags          uint64
	Addr                 uint64
	From, To             uint64
	MapFlags, PageSize   uint64
	Offset               uint64
	Inode                uint64
	DevMajor, DevMinor   uint32
	NameSize, IDSize     uint32
	NameAddr, BuildIDFor uint64
}

// ioctlQueryMap is PROCMAP_QUERY, and the others are bits of procmapQuery.MapFlags. Package unix lacks them.
const (
	ioctlQueryMap = 0xc0686611
	readable      = 1
	writable      = 2
	shared        = 8
)

// queryMap looks up the mapping at an address in a process's maps, and its file's name. It
// returns ENOTTY if the kernel does not support this.
func queryMap(fd int, q *procmapQuery, name []byte) error {
	q.Size, q.NameSize = uint64(unsafe.Sizeof(*q)), uint32(len(name))
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&name[0])
	q.NameAddr = uint64(uintptr(unsafe.Pointer(&name[0])))
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlQueryMap, uintptr(unsafe.Pointer(q)))
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}
