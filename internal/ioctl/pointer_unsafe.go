package ioctl

import (
	"unsafe"

	"github.com/goverbs/goverbs/internal/abi"
)

const (
	hdrSize  = int(unsafe.Sizeof(abi.IbUverbsIoctlHdr{}))
	attrSize = int(unsafe.Sizeof(abi.IbUverbsAttr{}))
	// The kernel reads inputs of up to this size from the attribute itself. It would take
	// an address there for the value.
	inlineSize = 8
)

// ref is the pointer behind an attribute's address. A request is on the heap, so a pointer
// stored in it makes its target escape to the heap, where memory does not move, and keeps
// the target alive as long as the request.
type ref = unsafe.Pointer

// In adds *v as an input: by value if it has up to 8 bytes, by address otherwise.
func In[T any](r *Request, id uint16, v *T) {
	r.in(id, unsafe.Pointer(v), int(unsafe.Sizeof(*v)))
}

// Out adds *v as the memory of an output. Outputs always travel by address.
func Out[T any](r *Request, id uint16, v *T) {
	r.out(id, unsafe.Pointer(v), int(unsafe.Sizeof(*v)))
}

// InBytes adds b as an input; nil adds nothing.
func (r *Request) InBytes(id uint16, b []byte) {
	if b != nil {
		r.in(id, unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
}

// OutBytes adds b as the memory of an output; nil adds nothing.
func (r *Request) OutBytes(id uint16, b []byte) {
	if b != nil {
		r.out(id, unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
}

// InSlice adds a slice of records as an input.
func InSlice[T any](r *Request, id uint16, s []T) {
	r.in(id, unsafe.Pointer(unsafe.SliceData(s)), len(s)*int(unsafe.Sizeof(*new(T))))
}

// OutSlice adds a slice of records as the memory of an output.
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

// maxLen is the largest length that fits in an attribute's u16.
const maxLen = 1<<16 - 1

func (r *Request) pointer() unsafe.Pointer { return unsafe.Pointer(r.hdr) }

func bytesPointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// bytes returns the memory of attribute i, as the kernel sees it.
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

// bytes returns the header and the input of a message, for write(2), and stores the answer's
// address in the first field of the input. The message is on the heap, where memory does not
// move.
func (m *message[In, Answer]) bytes(command uint32) []byte {
	answer := unsafe.Sizeof(m.answer)
	if answer > 0 {
		*(*uint64)(unsafe.Pointer(&m.in)) = uint64(uintptr(unsafe.Pointer(&m.answer)))
	}
	size := unsafe.Sizeof(m.header) + unsafe.Sizeof(m.in) // no padding: the header has 8 bytes, and in needs no larger alignment
	m.header = abi.IbUverbsCmdHdr{Command: command, InWords: uint16(size / 4), OutWords: uint16(answer / 4)}
	return unsafe.Slice((*byte)(unsafe.Pointer(&m.header)), size)
}

// answerTo makes the message's answer the output of a request.
func (m *message[In, Answer]) answerTo(r *Request) {
	if unsafe.Sizeof(m.answer) > 0 {
		Out(r, abi.UVERBS_ATTR_CORE_OUT, &m.answer)
	}
}
