package ioctl

import (
	"unsafe"

	"github.com/goverbs/goverbs/internal/abi"
)

const (
	hdrSize  = int(unsafe.Sizeof(abi.IbUverbsIoctlHdr{}))
	attrSize = int(unsafe.Sizeof(abi.IbUverbsAttr{}))
	// The kernel takes inputs of up to this size from the attribute itself, and
	// would take a pointer there for the value.
	inlineSize = 8
)

// ref is what an attribute points at. Storing the pointer in a heap object is
// what makes its target escape to the heap, where memory does not move, and
// what keeps it alive as long as the request.
type ref = unsafe.Pointer

// In adds *v as an input: by value up to 8 bytes, else by address.
func In[T any](r *Request, id uint16, v *T) {
	r.in(id, unsafe.Pointer(v), int(unsafe.Sizeof(*v)))
}

// Out adds *v as the place for an output. Outputs always go by address.
func Out[T any](r *Request, id uint16, v *T) {
	r.out(id, unsafe.Pointer(v), int(unsafe.Sizeof(*v)))
}

// InBytes adds b as an input; nil adds nothing.
func (r *Request) InBytes(id uint16, b []byte) {
	if b != nil {
		r.in(id, unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
}

// OutBytes adds b as the place for an output; nil adds nothing.
func (r *Request) OutBytes(id uint16, b []byte) {
	if b != nil {
		r.out(id, unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
}

// InSlice adds a slice of records as an input.
func InSlice[T any](r *Request, id uint16, s []T) {
	r.in(id, unsafe.Pointer(unsafe.SliceData(s)), len(s)*int(unsafe.Sizeof(*new(T))))
}

// OutSlice adds a slice of records as the place for an output.
func OutSlice[T any](r *Request, id uint16, s []T) {
	r.out(id, unsafe.Pointer(unsafe.SliceData(s)), len(s)*int(unsafe.Sizeof(*new(T))))
}

func (r *Request) in(id uint16, p unsafe.Pointer, n int) {
	if n > inlineSize {
		r.out(id, p, n)
		return
	}
	var v [inlineSize]byte
	copy(v[:], unsafe.Slice((*byte)(p), n))
	r.add(id, uint16(n), attrMandatory, *(*uint64)(unsafe.Pointer(&v)), nil)
}

func (r *Request) out(id uint16, p unsafe.Pointer, n int) {
	if n > maxLen {
		r.hdr.Reserved1 = 1
		return
	}
	r.add(id, uint16(n), attrMandatory, uint64(uintptr(p)), p)
}

// maxLen is the largest buffer an attribute's u16 length can tell.
const maxLen = 1<<16 - 1

func (r *Request) pointer() unsafe.Pointer { return unsafe.Pointer(r.hdr) }

func bytesPointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// bytes is the memory behind attribute i, as the other side of the call sees it.
func (r *Request) bytes(i int) []byte {
	if r.refs[i] != nil {
		return unsafe.Slice((*byte)(r.refs[i]), r.attrs[i].Len)
	}
	n := min(int(r.attrs[i].Len), inlineSize)
	return unsafe.Slice((*byte)(unsafe.Pointer(&r.attrs[i].Data)), n)
}

func put[T any](b []byte, v *T) bool {
	if len(b) < int(unsafe.Sizeof(*v)) {
		return false
	}
	copy(b, unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)))
	return true
}

func get[T any](b []byte, v *T) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)), b)
}

// bytes is what write(2) takes of a message. The answer's address goes into the
// input's first field; the message is on the heap, where memory does not move.
func (m *message[In, Answer]) bytes(command uint32) []byte {
	answer := unsafe.Sizeof(m.answer)
	if answer > 0 {
		*(*uint64)(unsafe.Pointer(&m.in)) = uint64(uintptr(unsafe.Pointer(&m.answer)))
	}
	size := unsafe.Sizeof(m.header) + unsafe.Sizeof(m.in) // 8 bytes, and what is aligned to no more
	m.header = abi.IbUverbsCmdHdr{Command: command, InWords: uint16(size / 4), OutWords: uint16(answer / 4)}
	return unsafe.Slice((*byte)(unsafe.Pointer(&m.header)), size)
}

// answerTo has a request answered where the message is.
func (m *message[In, Answer]) answerTo(r *Request) {
	if unsafe.Sizeof(m.answer) > 0 {
		Out(r, abi.UVERBS_ATTR_CORE_OUT, &m.answer)
	}
}
