package ioctl

import (
	"sync"

	"github.com/goverbs/goverbs/internal/abi"
)

// MaxAttrs is how many attributes a request can hold. The largest core method,
// QP create, has 17 with its driver-private pair.
const MaxAttrs = 20

const attrMandatory = uint16(abi.UVERBS_ATTR_F_MANDATORY)

// Request is one call of an object's method. Make it with [New], add its
// attributes, issue it with [Request.Do], and give its room back with
// [Request.Free]. A request may be issued again as it is, which is how a
// [Command] avoids building one each time.
//
// A Request must not be copied, nor be issued by two goroutines at once.
type Request struct {
	hdr   *abi.IbUverbsIoctlHdr // what the kernel reads: the header …
	attrs []abi.IbUverbsAttr    // … with these right behind
	refs  []ref                 // what each attribute points at
	few   wire[[fewAttrs]abi.IbUverbsAttr, [fewAttrs]ref]
}

// wire is room for a request: attributes, and what they point at.
type wire[A, R any] struct {
	hdr   abi.IbUverbsIoctlHdr
	attrs A
	refs  R
}

// fewAttrs is as many as most requests have, someAttrs all but a few.
const fewAttrs, someAttrs = 5, 10

// New begins a request for a method of an object. driver must be the device's
// own driver id: the kernel answers EINVAL to any other.
func New(driver uint32, object, method uint16) *Request {
	r := requests.Get().(*Request)
	*r.hdr = abi.IbUverbsIoctlHdr{DriverId: driver, ObjectId: object, MethodId: method}
	return r
}

// requests keep the room they have grown to.
var requests = sync.Pool{New: func() any {
	r := new(Request)
	r.hdr, r.attrs, r.refs = &r.few.hdr, r.few.attrs[:0], r.few.refs[:0]
	return r
}}

// Free ends the request and what it points at.
func (r *Request) Free() {
	clear(r.refs)
	r.attrs, r.refs = r.attrs[:0], r.refs[:0]
	requests.Put(r)
}

// grow makes room for more attributes, in the end for as many as there can be.
func (r *Request) grow() {
	if len(r.attrs) < someAttrs {
		some := new(wire[[someAttrs]abi.IbUverbsAttr, [someAttrs]ref])
		r.move(&some.hdr, some.attrs[:0], some.refs[:0])
		return
	}
	many := new(wire[[MaxAttrs]abi.IbUverbsAttr, [MaxAttrs]ref])
	r.move(&many.hdr, many.attrs[:0], many.refs[:0])
}

func (r *Request) move(hdr *abi.IbUverbsIoctlHdr, attrs []abi.IbUverbsAttr, refs []ref) {
	*hdr = *r.hdr
	r.hdr, r.attrs, r.refs = hdr, append(attrs, r.attrs...), append(refs, r.refs...)
}

// add adds an attribute, which may point at something. One too many is a bug of
// this module that the kernel would see as a truncated request, so it is left out
// and the header is made one that the kernel refuses.
func (r *Request) add(id, length, flags uint16, data uint64, to ref) {
	if len(r.attrs) == MaxAttrs {
		r.hdr.Reserved1 = 1
		return
	}
	if len(r.attrs) == cap(r.attrs) {
		r.grow()
	}
	r.attrs = append(r.attrs, abi.IbUverbsAttr{AttrId: id, Len: length, Flags: flags, Data: data})
	r.refs = append(r.refs, to)
}

// U32 adds a 4-byte input, carried by value.
func (r *Request) U32(id uint16, v uint32) { r.add(id, 4, attrMandatory, uint64(v), nil) }

// U64 adds an 8-byte input, carried by value.
func (r *Request) U64(id uint16, v uint64) { r.add(id, 8, attrMandatory, v, nil) }

// Const adds an enumerated input (UVERBS_ATTR_CONST_IN): always 8 bytes.
func (r *Request) Const(id uint16, v uint64) { r.add(id, 8, attrMandatory, v, nil) }

// Flags adds a bit set (UVERBS_ATTR_FLAGS_IN).
func (r *Request) Flags(id uint16, v uint32) { r.add(id, 4, attrMandatory, uint64(v), nil) }

// Enum adds a choice that has no data (UVERBS_ATTR_ENUM_IN).
func (r *Request) Enum(id uint16, element uint8) {
	r.add(id, 0, attrMandatory, 0, nil)
	if i, ok := r.index(id); ok {
		r.attrs[i].AttrData = uint16(element)
	}
}

// Handle adds an existing object (UVERBS_ATTR_IDR).
func (r *Request) Handle(id uint16, handle uint32) {
	r.add(id, 0, attrMandatory, uint64(handle), nil)
}

// FD adds an existing descriptor object (UVERBS_ATTR_FD).
func (r *Request) FD(id uint16, fd int32) { r.add(id, 0, attrMandatory, uint64(int64(fd)), nil) }

// NewObject adds the place where the kernel writes the handle, or the
// descriptor, of what it creates; read it with [Request.Created].
func (r *Request) NewObject(id uint16) { r.add(id, 0, attrMandatory, 0, nil) }

// Created returns what the kernel wrote to the attribute added by NewObject.
func (r *Request) Created(id uint16) uint32 {
	if i, ok := r.index(id); ok {
		return uint32(r.attrs[i].Data)
	}
	return ^uint32(0)
}

// Do issues the request. The error is a syscall.Errno, or a [Refusal] with one.
func (r *Request) Do(f File) error {
	r.hdr.NumAttrs = uint16(len(r.attrs))
	r.hdr.Length = uint16(hdrSize + len(r.attrs)*attrSize)
	if err := f.Ioctl(r); err != nil {
		return r.refusal(err)
	}
	return nil
}

func (r *Request) index(id uint16) (int, bool) {
	for i := range r.attrs {
		if r.attrs[i].AttrId == id {
			return i, true
		}
	}
	return 0, false
}
