package mmap

import (
	"fmt"
	"math"
	"net"
	"os"
	"sync/atomic"
)

// Prot is the access to a mapping. The values combine with |.
type Prot int

const (
	ProtRead  Prot = 1 << iota // loads, for instance of a device's clock page
	ProtWrite                  // stores, for instance to a doorbell page
)

// AnonymousOptions are options of [Anonymous]. Nil means the zero value: ordinary pages.
type AnonymousOptions struct {
	// Huge asks for 2 MiB pages from the pool that vm.nr_hugepages reserves;
	// the length then rounds up to 2 MiB.
	Huge bool
	// Align makes the address a multiple of it: a power of two of at most 2 MiB. 0 means the page
	// size. An alignment of 2 MiB lets the kernel use transparent huge pages for the whole memory.
	Align int
	// DontFork keeps the memory out of child processes, so that pages that a device has
	// pinned stay with this process. Kernels before 5.12 need it.
	DontFork bool
}

// A Region is memory shared with a kernel or a device, outside the Go heap. The garbage
// collector neither moves nor frees it: the creator closes it. It has no finalizer, because a
// []byte into the mapping does not keep the Region reachable and would be left dangling.
//
// The methods are safe for concurrent use. The memory is not. Using the memory or a ring in
// it after Close is a fault that kills the process.
type Region struct {
	data   []byte
	unmap  func([]byte) error // nil: the memory is the caller's
	closed atomic.Bool
}

// Map maps length bytes of fd from offset on, shared with the file or device. offset must be
// a multiple of the page size, and length is rounded up to one. The descriptor may be closed
// afterwards, because the mapping holds its file. Errors match the errno of mmap(2).
//
// C: mmap
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

// Anonymous returns length bytes of zeroed memory, readable and writable, rounded up to the
// page size. opts may be nil. Errors match the errno of mmap(2). ENOMEM with Huge means that
// the pool of huge pages is too small.
//
// The memory is private (MAP_PRIVATE), so it can use transparent huge pages and is not
// charged as shared memory. That is safe for memory that a device has pinned. A Go process
// forks only to exec, and usually shares its page tables with the child until then. If a
// fork copies the page tables, the kernel copies pinned pages for the child at once
// (COPY_ON_FORK), and the parent and the device keep theirs. For memory that two processes
// share, use [Map] on a memfd.
//
// C: mmap
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
	if a := opts.Align; a < 0 || a > hugePage || a&(a-1) != 0 {
		return nil, fmt.Errorf("mmap: anonymous memory: %w: alignment %d is not a power of two of at most 2 MiB", os.ErrInvalid, a)
	}
	data, err := mapAnonymous(size, opts)
	if err != nil {
		return nil, fmt.Errorf("mmap: %d bytes of anonymous memory: %w", size, err)
	}
	return track(&Region{data: data, unmap: unmapMemory}), nil
}

// Wrap returns a Region of memory that the caller owns. Close does not free it. Wrap is for
// devices inside this process and for tests, because the race detector sees accesses and
// ordering in the Go heap only. Do not register such memory with a real device.
func Wrap(memory []byte) (*Region, error) {
	if len(memory) == 0 {
		return nil, fmt.Errorf("mmap: wrap: %w", errLength(0))
	}
	return track(&Region{data: memory}), nil
}

// WrapUntil is like [Wrap], and Close calls closed, for a model that lends the memory.
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

// Len returns the length in bytes after rounding. It may be called after Close.
func (r *Region) Len() int { return len(r.data) }

// Addr returns the address of the first byte, for a kernel or a device. It may be called after
// Close.
func (r *Region) Addr() uint64 { return uint64(address(r.data)) }

// Close unmaps the memory. A second Close returns an error that matches [net.ErrClosed].
//
// C: munmap
func (r *Region) Close() error {
	if r == nil {
		return fmt.Errorf("mmap: close region: the pointer is nil: %w", os.ErrInvalid)
	}
	if r.closed.Swap(true) {
		return fmt.Errorf("mmap: close region %#x: %w", r.Addr(), net.ErrClosed)
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

var live atomic.Int64

// Live returns the number of regions that are not closed, for tests of leaks.
func Live() int { return int(live.Load()) }

func track(r *Region) *Region {
	live.Add(1)
	return r
}
