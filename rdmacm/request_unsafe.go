package rdmacm

import (
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

// newRequest must stay out of line: the command carries the address of resp as
// a number, so the object has to be on the heap, where it does not move.
//
//go:noinline
func newRequest[B, R any](cmd uint32) *request[B, R] {
	r := new(request[B, R])
	r.hdr.Cmd = cmd
	r.hdr.In = uint16(unsafe.Sizeof(r.body))
	r.hdr.Out = uint16(unsafe.Sizeof(r.resp))
	return r
}

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
