package rdmacm

import (
	"sync"
	"unsafe"

	"github.com/goverbs/goverbs/internal/abi"
)

// request is one command as the kernel reads it, header and body without a gap
// (no body is aligned to more than 8), followed by room for the answer.
type request[B, R any] struct {
	hdr  abi.RdmaUcmCmdHdr
	body B
	resp R
}

// room is what a request is made in, used again and again: none has pointers.
type room [144]uint64

// rooms keep what the command carries the address of, as a number, on the heap,
// where it does not move.
var rooms = sync.Pool{New: func() any { return new(room) }}

// newRequest makes one that is free when the caller says so.
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

// free ends r and all that in and out gave.
func (r *request[B, R]) free() { rooms.Put((*room)(unsafe.Pointer(r))) }

// in and out share r's memory and so keep all of r alive, resp included.
func (r *request[B, R]) in() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(r.hdr)+unsafe.Sizeof(r.body))
}

func (r *request[B, R]) out() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&r.resp)), unsafe.Sizeof(r.resp))
}

func (r *request[B, R]) respAddr() uint64 {
	return uint64(uintptr(unsafe.Pointer(&r.resp)))
}

// view copies a T out of memory that others laid out, such as the event's
// union, which is not aligned to 8. Fewer bytes than a T leave its rest zero.
func view[T any](b []byte) (t T) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&t)), unsafe.Sizeof(t)), b)
	return t
}

// put is the way back and returns the size.
func put[T any](b *[128]byte, t *T) uint16 {
	return uint16(copy(b[:], unsafe.Slice((*byte)(unsafe.Pointer(t)), unsafe.Sizeof(*t))))
}
