package mmap

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/verbs"
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
		return nil, failed("map", fmt.Sprintf("file at offset %#x", offset), err)
	}
	data, err := mapFile(fd, offset, size, prot)
	if err != nil {
		return nil, failed("map", fmt.Sprintf("%d bytes at offset %#x", size, offset), err)
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
		return nil, failed("map", "anonymous memory", err)
	}
	if a := opts.Align; a < 0 || a > hugePage || a&(a-1) != 0 {
		return nil, failed("map", "anonymous memory", fmt.Errorf("%w: alignment %d is not a power of two of at most 2 MiB", os.ErrInvalid, a))
	}
	data, err := mapAnonymous(size, opts)
	if err != nil {
		e := &verbs.Error{Op: "map", Object: fmt.Sprintf("%d bytes of anonymous memory", size), Err: err}
		switch {
		case opts.Huge && errors.Is(err, syscall.ENOMEM):
			e.Hint = fmt.Sprintf("too few free 2 MiB pages: raise vm.nr_hugepages by %d", size/hugePage)
		case opts.Huge && errors.Is(err, syscall.EINVAL):
			e.Hint = "this kernel has no 2 MiB pages"
		}
		return nil, e
	}
	return track(&Region{data: data, unmap: unmapMemory}), nil
}

// Wrap returns a Region of memory that the caller owns. Close does not free it. Wrap is for
// devices inside this process and for tests, because the race detector sees accesses and
// ordering in the Go heap only. Do not register such memory with a real device.
func Wrap(memory []byte) (*Region, error) {
	if len(memory) == 0 {
		return nil, failed("wrap", "memory", errLength(0))
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
		return failed("close", "region", errNil)
	}
	if r.closed.Swap(true) {
		return failed("close", fmt.Sprintf("region %#x", r.Addr()), net.ErrClosed)
	}
	regions.Add(-1)
	if r.unmap == nil {
		return nil
	}
	if err := r.unmap(r.data); err != nil {
		return failed("close", fmt.Sprintf("region %#x", r.Addr()), err)
	}
	return nil
}

func roundUp(length, unit int) (int, error) {
	if length <= 0 || length > math.MaxInt-unit {
		return 0, errLength(length)
	}
	return (length + unit - 1) / unit * unit, nil
}

var errNil = fmt.Errorf("%w: the pointer is nil", os.ErrInvalid)

func failed(op, object string, err error) error {
	return &verbs.Error{Op: op, Object: object, Err: err}
}

func errLength(length int) error {
	return fmt.Errorf("%w: length %d", os.ErrInvalid, length)
}

func track(r *Region) *Region {
	regions.Add(1)
	return r
}

// Format implements [fmt.Formatter]. It prints address, length and state, never the memory.
func (r *Region) Format(f fmt.State, _ rune) {
	state := "open"
	if r.closed.Load() {
		state = "closed"
	}
	fmt.Fprintf(f, "region of %d bytes at %#x, %s", r.Len(), r.Addr(), state)
}
