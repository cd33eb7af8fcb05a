package ioctl

import (
	"errors"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/mmap"
)

// device is an open device of the running kernel.
type device struct {
	fd int
}

// Open opens a uverbs character device. Unless rdev is 0, the node must have that device
// number, because names under /dev/infiniband are reused.
func Open(path string, rdev uint64) (File, error) {
	fd, err := open(path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if rdev != 0 && st.Rdev != rdev {
		unix.Close(fd)
		return nil, &os.PathError{Op: "open", Path: path, Err: ErrStaleNode}
	}
	return &device{fd}, nil
}

// FromFile returns a File with a duplicate of f's descriptor, and the device number if f is
// a character device.
func FromFile(f *os.File) (file File, rdev uint64, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return nil, 0, err
	}
	fd, failed := -1, error(nil)
	if err := c.Control(func(original uintptr) { fd, failed = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, 0, err
	}
	if failed != nil {
		return nil, 0, os.NewSyscallError("fcntl", failed)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, 0, os.NewSyscallError("fstat", err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFCHR {
		rdev = st.Rdev
	}
	return &device{fd}, rdev, nil
}

func (d *device) Ioctl(r *Request) error {
	p := r.pointer()
	err := repeat(func() syscall.Errno {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.fd), abi.RDMA_VERBS_IOCTL, uintptr(p))
		return errno
	})
	runtime.KeepAlive(r)
	return err
}

// Command implements Commander. write(2) accepts a command as a whole or not at all.
func (d *device) Command(wire []byte) error {
	err := repeat(func() syscall.Errno {
		_, _, errno := unix.Syscall(unix.SYS_WRITE, uintptr(d.fd), uintptr(bytesPointer(wire)), uintptr(len(wire)))
		return errno
	})
	runtime.KeepAlive(wire)
	return err
}

func (d *device) PageSize() int { return os.Getpagesize() }

func (d *device) Map(offset int64, length int, prot mmap.Prot) (*mmap.Region, error) {
	return mmap.Map(d.fd, offset, length, prot)
}

func (d *device) MapPage(offset int64, length int) (*mmap.Page, error) {
	return mmap.MapPage(d.fd, offset, length)
}

// Alloc implements File.
func (d *device) Alloc(length int, opts *mmap.AnonymousOptions) (*mmap.Region, error) {
	var o mmap.AnonymousOptions
	if opts != nil {
		o = *opts
	}
	o.DontFork = true
	return mmap.Anonymous(length, &o)
}

func (d *device) Lend(uint64, []byte) {}
func (d *device) Return(uint64)       {}

func (d *device) Events(fd int32) (wait.Source, error) {
	// The descriptor has no file status flags yet that F_SETFL could clear.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		return nil, errors.Join(err, unix.Close(int(fd)))
	}
	return wait.Open(int(fd)), nil
}

func (d *device) Close() error { return unix.Close(d.fd) }

// repeat repeats a call while signals interrupt it. The compiler inlines both the loop and
// the call.
func repeat(call func() syscall.Errno) error {
	errno := call()
	for errno == syscall.EINTR {
		errno = call()
	}
	if errno != 0 {
		return errno
	}
	return nil
}

func open(path string) (fd int, err error) {
	err = repeat(func() syscall.Errno {
		var failed error
		fd, failed = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		errno, _ := failed.(syscall.Errno)
		return errno
	})
	return fd, err
}
