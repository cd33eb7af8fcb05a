package mad

import (
	"reflect"
	"unsafe"
)

// The fields of an attribute are read and written by their offsets in its struct, which is faster
// than reflection: a discovery decodes hundreds of thousands of attributes. The offsets come from
// the layout of the same type.

func pointer(a Attribute) unsafe.Pointer { return reflect.ValueOf(a).UnsafePointer() }

func (f *Field) get(p unsafe.Pointer) uint64 {
	p = unsafe.Add(p, f.offset)
	switch f.memory {
	case memoryBool:
		if *(*bool)(p) {
			return 1
		}
		return 0
	case memoryUint8:
		return uint64(*(*uint8)(p))
	case memoryUint16:
		return uint64(*(*uint16)(p))
	case memoryUint32:
		return uint64(*(*uint32)(p))
	default:
		return *(*uint64)(p)
	}
}

func (f *Field) set(p unsafe.Pointer, v uint64) {
	p = unsafe.Add(p, f.offset)
	switch f.memory {
	case memoryBool:
		*(*bool)(p) = v != 0
	case memoryUint8:
		*(*uint8)(p) = uint8(v)
	case memoryUint16:
		*(*uint16)(p) = uint16(v)
	case memoryUint32:
		*(*uint32)(p) = uint32(v)
	default:
		*(*uint64)(p) = v
	}
}

func (f *Field) clear(p unsafe.Pointer) {
	switch f.memory {
	case memoryBytes:
		clear(f.bytes(p))
	case memoryString:
		f.setText(p, "")
	default:
		f.set(p, 0)
	}
}

func (f *Field) bytes(p unsafe.Pointer) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(p, f.offset)), f.Width/8)
}

func (f *Field) text(p unsafe.Pointer) string { return *(*string)(unsafe.Add(p, f.offset)) }

func (f *Field) setText(p unsafe.Pointer, s string) { *(*string)(unsafe.Add(p, f.offset)) = s }
