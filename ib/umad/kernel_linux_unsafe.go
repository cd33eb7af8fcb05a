//go:build linux

package umad

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func ioctl(fd, request uintptr, arg []byte) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(unsafe.SliceData(arg))))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// sinkSize is the memory that the buffer of a message beyond the limit takes, in bytes.
const sinkSize = 1 << 20

// buffer is a mapping that a message is read into.
type buffer struct {
	bytes  []byte
	mapped unsafe.Pointer
	size   uintptr
}

// newBuffer maps a buffer of n bytes. If sink is set, all parts of sinkSize bytes are the same memory,
// so what is read into the buffer is lost.
func newBuffer(n int, sink bool) (_ *buffer, err error) {
	page := os.Getpagesize()
	b := &buffer{size: uintptr((n + page - 1) / page * page)}
	prot := unix.PROT_READ | unix.PROT_WRITE
	if sink {
		prot = unix.PROT_NONE // addresses alone, which a kernel that doesn't overcommit grants too
	}
	b.mapped, err = unix.MmapPtr(-1, 0, nil, b.size, prot, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	b.bytes = unsafe.Slice((*byte)(b.mapped), n)
	if sink {
		if err := b.alias(); err != nil {
			return nil, errors.Join(err, b.free())
		}
	}
	return b, nil
}

// alias replaces the memory of the buffer with repetitions of one file in memory.
func (b *buffer) alias() error {
	fd, err := unix.MemfdCreate("umad", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, sinkSize); err != nil {
		return err
	}
	for at := uintptr(0); at < b.size; at += sinkSize {
		if _, err := unix.MmapPtr(fd, 0, unsafe.Add(b.mapped, at), min(sinkSize, b.size-at), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
			return err
		}
	}
	return nil
}

func (b *buffer) free() error { return unix.MunmapPtr(b.mapped, b.size) }
