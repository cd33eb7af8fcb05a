package ioctl

import (
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/mmap"
)

// File is one open uverbs device: a user context's worth of kernel.
//
// Ioctl, Map, MapPage and Events may be called from several goroutines at once; Close
// only after all of them returned.
type File interface {
	// Ioctl carries out r and fills in its outputs. It must not keep r, which is
	// used again for other requests. The error is a plain syscall.Errno, so that
	// the failing path allocates nothing either.
	Ioctl(r *Request) error
	// Map maps length bytes of device memory at offset.
	Map(offset int64, length int, prot mmap.Prot) (*mmap.Region, error)
	// MapPage maps length bytes of registers at offset, for stores only.
	MapPage(offset int64, length int) (*mmap.Page, error)
	// Alloc makes zeroed memory for a queue. Its pages are the kernel's to use until the
	// region is closed; no child process has them.
	Alloc(length int, opts *mmap.AnonymousOptions) (*mmap.Region, error)
	// Lend hands over memory of the caller's that the kernel is about to be told the
	// address of, for as long as a memory region has it; Return ends that, once for
	// each Lend. The running kernel needs neither: it knows the process's memory. A
	// model finds the bytes behind an address by them, and never makes a pointer of a
	// number.
	Lend(addr uint64, b []byte)
	Return(addr uint64)
	// Events takes over a descriptor that the kernel handed out: a completion
	// channel or the asynchronous events.
	Events(fd int32) (wait.Source, error)
	Close() error
}
