package rdmacm

import (
	"sync"
	"unsafe"

	"github.com/goverbs/goverbs/internal/abi"
)

// request is a command in the kernel's layout: header and body without a gap (no body is aligned to more
// than 8), followed by memory for the answer.
type request[B, R any] struct {
	hdr  abi.RdmaUcmCmdHdr
	body B
	resp R
}

// room is memory for a request. It is reused, because no request has pointers.
type room [144]uint64

// rooms holds free rooms. They are on the heap, because the command carries the address of its answer as
// a number, and goroutine stacks move.
var rooms = sync.Pool{New: func() any { return new(room) }}

// newRequest returns a request that the caller must free.
func newRequest[B, R any](cmd uint32) *request[B, R] {
	memory := rooms.Get().(*room)
	var r *request[B, R]
	_ = memory[unsafe.Sizeof(*r)/8] // has room
	clear(memory[:])
	r = (*request[B, R])(unsafe.Pointer(memory))
	r.hdr.Cmd = cmd
	r.hdr.In = uint16(unsafe.Sizeof(r.body))
	r.hdr.Out = uint16(unsafe.Sizeof(r.resp))
	return r
}

// free frees r, and the slices that in and out returned.
func (r *request[B, R]) free() { rooms.Put((*room)(unsafe.Pointer(r))) }

// in and out return slices of r's memory, which keep all of r alive.
func (r *request[B, R]) in() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(r.hdr)+unsafe.Sizeof(r.body))
}

func (r *request[B, R]) out() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&r.resp)), unsafe.Sizeof(r.resp))
}

func (r *request[B, R]) respAddr() uint64 {
	return uint64(uintptr(unsafe.Pointer(&r.resp)))
}

// view copies a T out of memory that may be unaligned, such as the event's union. If b is shorter than a T,
// the rest is zero.
func view[T any](b []byte) (t T) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&t)), unsafe.Sizeof(t)), b)
	return t
}

// put copies a T into b and returns its size.
func put[T any](b *[128]byte, t *T) uint16 {
	return uint16(copy(b[:], unsafe.Slice((*byte)(unsafe.Pointer(t)), unsafe.Sizeof(*t))))
}
