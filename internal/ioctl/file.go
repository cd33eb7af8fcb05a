package ioctl

import (
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/mmap"
)

// File is an open uverbs device, with its user context in the kernel.
//
// Ioctl, Map, MapPage and Events may be called by several goroutines at once. Close may be
// called only after all of them have returned.
type File interface {
	// Ioctl executes r and stores its outputs. It must not keep r, which is reused for
	// other requests. The error is a plain syscall.Errno, so that failing allocates nothing.
	Ioctl(r *Request) error
	// PageSize returns the bytes of a page of the kernel's.
	PageSize() int
	// Map maps length bytes of device memory at offset.
	Map(offset int64, length int, prot mmap.Prot) (*mmap.Region, error)
	// MapPage maps length bytes of registers at offset, for stores only.
	MapPage(offset int64, length int) (*mmap.Page, error)
	// Alloc allocates zeroed memory for a queue. The kernel may use its pages until the
	// region is closed. Child processes do not inherit them.
	Alloc(length int, opts *mmap.AnonymousOptions) (*mmap.Region, error)
	// Lend lends memory of the caller to the kernel, before a request carries its address.
	// A memory region keeps it until Return, which is called once for each Lend. The
	// running kernel needs neither, because it has the process's address space. A model
	// uses them to find the bytes behind an address without making a pointer of a number.
	Lend(addr uint64, b []byte)
	Return(addr uint64)
	// Events takes ownership of a descriptor that the kernel returned: a completion
	// channel or the asynchronous events.
	Events(fd int32) (wait.Source, error)
	Close() error
}

// MemoryLimiter is an optional interface of a File whose kernel limits pinned memory by a number of its
// own, in place of the RLIMIT_MEMLOCK of this process.
type MemoryLimiter interface {
	// MemoryLimit returns the limit in bytes. A negative limit means no limit. own is false if the
	// limit of this process applies.
	MemoryLimit() (bytes int64, own bool)
}
