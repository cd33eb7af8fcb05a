package ioctl

import (
	"github.com/goverbs/goverbs/internal/abi"
)

// MaxAttrs is how many attributes a request can hold. The largest core method,
// QP create, has 17 with its driver-private pair.
const MaxAttrs = 20

const attrMandatory = uint16(abi.UVERBS_ATTR_F_MANDATORY)

// Request is one call of an object's method. Make it with [New], add its
// attributes, issue it with [Request.Do]. A request may be issued again as it
// is, which is how a doorbell avoids building one a batch.
//
// A Request must not be copied after its first attribute was added, nor be
// issued by two goroutines at once.
type Request struct {
	wire wire
	refs [MaxAttrs]ref
	n    int
}

// wire is what the kernel reads: the header with the attributes right behind.
type wire struct {
	hdr   abi.IbUverbsIoctlHdr
	attrs [MaxAttrs]abi.IbUverbsAttr
}

// New begins a request for a method of an object. driver must be the device's
// own driver id: the kernel answers EINVAL to any other.
func New(driver uint32, object, method uint16) *Request {
	r := &Request{}
	r.wire.hdr.DriverId = driver
	r.wire.hdr.ObjectId = object
	r.wire.hdr.MethodId = method
	return r
}

// add reserves the next attribute. One too many is a bug of this module that
// the kernel would see as a truncated request, so it is left out and the header
// is made one that the kernel refuses.
func (r *Request) add(id, length, flags uint16, data uint64) *abi.IbUverbsAttr {
	if r.n == MaxAttrs {
		r.wire.hdr.Reserved1 = 1
		return &abi.IbUverbsAttr{}
	}
	a := &r.wire.attrs[r.n]
	*a = abi.IbUverbsAttr{AttrId: id, Len: length, Flags: flags, Data: data}
	r.n++
	return a
}

// U32 adds a 4-byte input, carried by value.
func (r *Request) U32(id uint16, v uint32) { r.add(id, 4, attrMandatory, uint64(v)) }

// U64 adds an 8-byte input, carried by value.
func (r *Request) U64(id uint16, v uint64) { r.add(id, 8, attrMandatory, v) }

// Const adds an enumerated input (UVERBS_ATTR_CONST_IN): always 8 bytes.
func (r *Request) Const(id uint16, v uint64) { r.add(id, 8, attrMandatory, v) }

// Flags adds a bit set (UVERBS_ATTR_FLAGS_IN).
func (r *Request) Flags(id uint16, v uint32) { r.add(id, 4, attrMandatory, uint64(v)) }

// Handle adds an existing object (UVERBS_ATTR_IDR).
func (r *Request) Handle(id uint16, handle uint32) { r.add(id, 0, attrMandatory, uint64(handle)) }

// FD adds an existing descriptor object (UVERBS_ATTR_FD).
func (r *Request) FD(id uint16, fd int32) { r.add(id, 0, attrMandatory, uint64(int64(fd))) }

// NewObject adds the place where the kernel writes the handle, or the
// descriptor, of what it creates; read it with [Request.Created].
func (r *Request) NewObject(id uint16) { r.add(id, 0, attrMandatory, 0) }

// Created returns what the kernel wrote to the attribute added by NewObject.
func (r *Request) Created(id uint16) uint32 {
	if i, ok := r.index(id); ok {
		return uint32(r.wire.attrs[i].Data)
	}
	return ^uint32(0)
}

// Do issues the request. The error is a syscall.Errno.
func (r *Request) Do(f File) error {
	r.wire.hdr.NumAttrs = uint16(r.n)
	r.wire.hdr.Length = uint16(hdrSize + r.n*attrSize)
	return f.Ioctl(r)
}

func (r *Request) index(id uint16) (int, bool) {
	for i := range r.n {
		if r.wire.attrs[i].AttrId == id {
			return i, true
		}
	}
	return 0, false
}
