package ioctl

import "github.com/goverbs/goverbs/internal/abi"

// The methods in this file are the kernel's side of a request. With them a fake kernel in a
// test, or a software NIC in this process, reads inputs and writes outputs, as the running
// kernel does by copying from and to user memory.

// Header returns the header as it was issued.
func (r *Request) Header() abi.IbUverbsIoctlHdr { return *r.hdr }

// Attrs returns the attributes as they were issued. [Request.Bytes] returns the memory
// behind an address.
func (r *Request) Attrs() []abi.IbUverbsAttr { return r.attrs }

// Command returns the command that an INVOKE_WRITE carries.
func (r *Request) Command() (uint32, bool) {
	if r.hdr.ObjectId != abi.UVERBS_OBJECT_DEVICE || r.hdr.MethodId != abi.UVERBS_METHOD_INVOKE_WRITE {
		return 0, false
	}
	v, ok := r.Value(abi.UVERBS_ATTR_WRITE_CMD)
	return uint32(v), ok
}

// Element returns the choice in an attribute added by Enum.
func (r *Request) Element(id uint16) (uint16, bool) {
	i, ok := r.index(id)
	if !ok {
		return 0, false
	}
	return r.attrs[i].AttrData, true
}

// Value returns the value in an attribute.
func (r *Request) Value(id uint16) (uint64, bool) {
	i, ok := r.index(id)
	if !ok {
		return 0, false
	}
	return r.attrs[i].Data, true
}

// Bytes returns the memory of an attribute, inline or behind its address.
func (r *Request) Bytes(id uint16) ([]byte, bool) {
	i, ok := r.index(id)
	if !ok {
		return nil, false
	}
	return r.bytes(i), true
}

// SetObject answers a create call with the new object's handle or descriptor.
func (r *Request) SetObject(id uint16, handle uint32) {
	if i, ok := r.index(id); ok {
		r.attrs[i].Data = uint64(handle)
	}
}

// Answer copies v to an output attribute. It reports whether the attribute exists and is
// large enough.
func Answer[T any](r *Request, id uint16, v *T) bool {
	i, ok := r.index(id)
	return ok && put(r.bytes(i), v)
}

// Argument copies an input attribute to v, and reports whether the attribute exists. Bytes of
// v beyond the input keep their value.
func Argument[T any](r *Request, id uint16, v *T) bool {
	i, ok := r.index(id)
	if ok {
		get(r.bytes(i), v)
	}
	return ok
}
