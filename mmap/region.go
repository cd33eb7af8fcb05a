package mmap

import (
	"fmt"
	"math"
	"os"
	"sync/atomic"
)

// Prot says how a mapping may be used; the values combine with |.
type Prot int

const (
	ProtRead  Prot = 1 << iota // loads; a device's clock page has nothing else
	ProtWrite                  // stores; a doorbell page may have nothing else
)

// AnonymousOptions refine [Anonymous]. The zero value, like nil, asks for ordinary pages.
type AnonymousOptions struct {
	// Huge asks for 2 MiB pages from the pool that vm.nr_hugepages reserves;
	// the length then rounds up to 2 MiB.
	Huge bool
	// DontFork keeps the memory out of child processes, so that pages a device has
	// pinned stay this process's whatever a child does. Kernels before 5.12 need it.
	DontFork bool
}

// A Region is memory shared with a kernel or a device, outside the Go heap.
// The garbage collector neither moves nor frees it: whoever made it closes it.
// There is deliberately no finalizer, for a []byte into the mapping keeps
// nothing alive and would be left dangling.
//
// The methods are safe for concurrent use. The memory is not, and using it
// (or a ring over it) after Close is a fault that kills the process.
type Region struct {
	data   []byte
	unmap  func([]byte) error // nil: the memory is the caller's
	closed atomic.Bool
}

// Map maps length bytes of fd from offset on, shared with whatever stands
// behind fd. Offset must be a multiple of the page; length rounds up to it.
// The descriptor may be closed afterwards; the mapping holds its file.
// Errors match the errno of mmap(2). C: mmap.
func Map(fd int, offset int64, length int, prot Prot) (*Region, error) {
	size, err := roundUp(length, os.Getpagesize())
	if err != nil {
		return nil, fmt.Errorf("mmap: map at offset %#x: %w", offset, err)
	}
	data, err := mapFile(fd, offset, size, prot)
	if err != nil {
		return nil, fmt.Errorf("mmap: map %d bytes at offset %#x: %w", size, offset, err)
	}
	return track(&Region{data: data, unmap: unmapMemory}), nil
}

// Anonymous returns length bytes of zeroed memory, rounded up to the page,
// readable and writable; opts may be nil. It is private (MAP_PRIVATE), so it
// can use transparent huge pages and is not charged as shared memory. That is
// sound under a device that has pinned it: a Go process forks only to exec, as a
// rule on the parent's own page tables, and when a fork does copy them the kernel
// gives the child copies of pinned pages at once (what uverbs reports as
// COPY_ON_FORK), so the parent and the device keep theirs. Memory that two
// processes work on is a file's: use [Map] on a memfd. Errors match the errno of
// mmap(2); ENOMEM with Huge means that the pool is too small, and says so.
// C: mmap.
func Anonymous(length int, opts *AnonymousOptions) (*Region, error) {
	if opts == nil {
		opts = &AnonymousOptions{}
	}
	unit := os.Getpagesize()
	if opts.Huge {
		unit = hugePage
	}
	size, err := roundUp(length, unit)
	if err != nil {
		return nil, fmt.Errorf("mmap: anonymous memory: %w", err)
	}
	data, err := mapAnonymous(size, opts)
	if err != nil {
		return nil, fmt.Errorf("mmap: %d bytes of anonymous memory: %w", size, err)
	}
	return track(&Region{data: data, unmap: unmapMemory}), nil
}

// Wrap makes a Region of memory that stays the caller's; Close leaves it alone.
// It is for a device inside this process and for tests: the race detector sees
// the Go heap only and is blind to accesses and to ordering in mapped memory.
// Don't register such memory with a real device.
func Wrap(memory []byte) (*Region, error) {
	if len(memory) == 0 {
		return nil, fmt.Errorf("mmap: wrap: %w", errLength(0))
	}
	return track(&Region{data: memory}), nil
}

// WrapUntil is like [Wrap], and Close calls a function that takes the memory back.
func WrapUntil(memory []byte, closed func()) (*Region, error) {
	r, err := Wrap(memory)
	if err == nil {
		r.unmap = func([]byte) error { closed(); return nil }
	}
	return r, err
}

// Bytes returns the memory, or nil after Close.
func (r *Region) Bytes() []byte {
	if r.closed.Load() {
		return nil
	}
	return r.data
}

// Len is the length in bytes after rounding. It outlives Close.
func (r *Region) Len() int { return len(r.data) }

// Addr is the address of the first byte, for a kernel or a device. It outlives Close.
func (r *Region) Addr() uint64 { return uint64(address(r.data)) }

// Close unmaps the memory. A second Close returns an error matching [os.ErrClosed].
// C: munmap.
func (r *Region) Close() error {
	if r.closed.Swap(true) {
		return fmt.Errorf("mmap: close region %#x: %w", r.Addr(), os.ErrClosed)
	}
	live.Add(-1)
	if r.unmap == nil {
		return nil
	}
	if err := r.unmap(r.data); err != nil {
		return fmt.Errorf("mmap: close region %#x: %w", r.Addr(), err)
	}
	return nil
}

func roundUp(length, unit int) (int, error) {
	if length <= 0 || length > math.MaxInt-unit {
		return 0, errLength(length)
	}
	return (length + unit - 1) / unit * unit, nil
}

func errLength(length int) error {
	return fmt.Errorf("%w: length %d", os.ErrInvalid, length)
}
