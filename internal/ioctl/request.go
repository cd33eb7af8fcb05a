package ioctl

import (
	"sync"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/debug"
)

// MaxAttrs is the largest number of attributes of a request. The largest core method, QP
// create, has 17 with its driver-private pair.
const MaxAttrs = 20

const attrMandatory = uint16(abi.UVERBS_ATTR_F_MANDATORY)

// Request is one call of an object's method. Create it with [New], add its attributes, issue
// it with [Request.Do], and release it with [Request.Free]. A request may be issued several
// times, as a [Command] does.
//
// A Request must not be copied, and only one goroutine at a time may issue it.
type Request struct {
	hdr   *abi.IbUverbsIoctlHdr // the kernel reads the header …
	attrs []abi.IbUverbsAttr    // … and the attributes, which follow it in memory
	refs  []ref                 // the pointer behind each attribute's address
	few   wire[[fewAttrs]abi.IbUverbsAttr, [fewAttrs]ref]
}

// wire is memory for a request: header, attributes, and the pointers behind their addresses.
type wire[A, R any] struct {
	hdr   abi.IbUverbsIoctlHdr
	attrs A
	refs  R
}

// Most requests have at most fewAttrs attributes, and almost all at most someAttrs.
const fewAttrs, someAttrs = 5, 10

// New returns a request for a method of an object. driver must be the device's driver id:
// the kernel answers EINVAL to any other.
func New(driver uint32, object, method uint16) *Request {
	r := requests.Get().(*Request)
	*r.hdr = abi.IbUverbsIoctlHdr{DriverId: driver, ObjectId: object, MethodId: method}
	return r
}

// requests are free requests. They keep the memory that they have grown to.
var requests = sync.Pool{New: func() any {
	r := new(Request)
	r.hdr, r.attrs, r.refs = &r.few.hdr, r.few.attrs[:0], r.few.refs[:0]
	return r
}}

// Free releases the request, and its references to other memory.
func (r *Request) Free() {
	clear(r.refs)
	r.attrs, r.refs = r.attrs[:0], r.refs[:0]
	requests.Put(r)
}

// grow makes room for more attributes: for someAttrs first, then for MaxAttrs.
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

// add adds an attribute; to is the pointer behind its address, if it has one. More than
// MaxAttrs attributes are a bug of this module. add then makes the header invalid, because
// the kernel might accept the request without the attribute.
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

// Enum adds an enumerated choice without data (UVERBS_ATTR_ENUM_IN).
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

// NewObject adds an attribute in which the kernel returns the handle or the descriptor of the
// object that it creates. [Request.Created] reads it.
func (r *Request) NewObject(id uint16) { r.add(id, 0, attrMandatory, 0, nil) }

// Created returns the handle or descriptor in an attribute added by NewObject.
func (r *Request) Created(id uint16) uint32 {
	if i, ok := r.index(id); ok {
		return uint32(r.attrs[i].Data)
	}
	return ^uint32(0)
}

// Do issues the request. The error is a syscall.Errno, or a [Refusal] with one.
// GOVERBS_DEBUG=ioctl prints the request.
func (r *Request) Do(f File) error {
	r.finish()
	if debug.Ioctl {
		return r.refusal(r.printed(f))
	}
	return r.issue(f)
}

// issue issues a finished request and does not print it.
func (r *Request) issue(f File) error {
	if err := f.Ioctl(r); err != nil {
		return r.refusal(err)
	}
	return nil
}

// finish writes the lengths into the header.
func (r *Request) finish() {
	r.hdr.NumAttrs = uint16(len(r.attrs))
	r.hdr.Length = uint16(hdrSize + len(r.attrs)*attrSize)
}

func (r *Request) index(id uint16) (int, bool) {
	for i := range r.attrs {
		if r.attrs[i].AttrId == id {
			return i, true
		}
	}
	return 0, false
}

// Write returns a request for a command of the older write(2) interface. The device object's
// method INVOKE_WRITE carries it. That is the only way, besides write(2), to commands
// without a method of their own. The kernel ignores the response address with which many
// command structs begin.
//
// C: execute_write_bufs
func Write[T any](driver, command uint32, in *T) *Request {
	r := New(driver, abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE)
	r.Const(abi.UVERBS_ATTR_WRITE_CMD, uint64(command))
	In(r, abi.UVERBS_ATTR_CORE_IN, in)
	return r
}

// WriteBytes is like Write, for a command whose input ends with an array.
func WriteBytes(driver, command uint32, in []byte) *Request {
	r := New(driver, abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE)
	r.Const(abi.UVERBS_ATTR_WRITE_CMD, uint64(command))
	r.InBytes(abi.UVERBS_ATTR_CORE_IN, in)
	return r
}

// Extended returns the id of an extended command.
func Extended(command uint32) uint32 {
	return command | abi.IB_USER_VERBS_CMD_FLAG_EXTENDED
}

// Driver adds the driver-private input and output, which the core passes to and from the
// kernel's driver; nil adds nothing.
func (r *Request) Driver(in, out []byte) {
	r.InBytes(abi.UVERBS_ATTR_UHW_IN, in)
	r.OutBytes(abi.UVERBS_ATTR_UHW_OUT, out)
}
