package ioctl

import "github.com/goverbs/goverbs/internal/abi"

// The methods in this file are the kernel's side of a request: a fake kernel in
// a test, or a software NIC in this process, reads and answers with them what
// the real kernel copies from and to user memory.

// Header returns the header as it was issued.
func (r *Request) Header() abi.IbUverbsIoctlHdr { return *r.hdr }

// Attrs returns the attributes as they were issued. What one points at is
// [Request.Bytes].
func (r *Request) Attrs() []abi.IbUverbsAttr { return r.attrs }

// Command returns the command that an INVOKE_WRITE carries.
func (r *Request) Command() (uint32, bool) {
	if r.hdr.ObjectId != abi.UVERBS_OBJECT_DEVICE || r.hdr.MethodId != abi.UVERBS_METHOD_INVOKE_WRITE {
		return 0, false
	}
	v, ok := r.Value(abi.UVERBS_ATTR_WRITE_CMD)
	return uint32(v), ok
}

// Element returns the choice of an attribute that has nothing else.
func (r *Request) Element(id uint16) (uint16, bool) {
	i, ok := r.index(id)
	if !ok {
		return 0, false
	}
	return r.attrs[i].AttrData, true
}

// Value returns what an attribute carries by value.
func (r *Request) Value(id uint16) (uint64, bool) {
	i, ok := r.index(id)
	if !ok {
		return 0, false
	}
	return r.attrs[i].Data, true
}

// Bytes returns the memory of an attribute, inline or pointed at.
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

// Answer copies v into an output attribute. It reports whether the attribute
// is there and large enough.
func Answer[T any](r *Request, id uint16, v *T) bool {
	i, ok := r.index(id)
	return ok && put(r.bytes(i), v)
}

// Argument copies an input attribute into v, the missing tail as zeros.
func Argument[T any](r *Request, id uint16, v *T) bool {
	i, ok := r.index(id)
	if ok {
		get(r.bytes(i), v)
	}
	return ok
}
