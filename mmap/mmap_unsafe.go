package mmap

import (
	"sync/atomic"
	"unsafe"
)

// Everything here relies on checks made once, by the constructors in layout.go.

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

func address(b []byte) uintptr { return uintptr(pointer(b)) }

// memoryAt is memory that the kernel has just mapped.
func memoryAt(start unsafe.Pointer, size int) []byte { return unsafe.Slice((*byte)(start), size) }

func sizeOf[T any]() uint64 { return uint64(unsafe.Sizeof(*new(T))) }

func alignOf[T any]() uint64 { return uint64(unsafe.Alignof(*new(T))) }

// slotsStart is where a checked array starts.
type slotsStart unsafe.Pointer

func startOf(memory []byte, offset int) slotsStart { return slotsStart(&memory[offset]) }

func startOfWord(w *atomic.Uint32) slotsStart { return slotsStart(w) }

// elementFrom views the element at an offset that is below the array's length: a
// masked index times the stride.
func elementFrom[T any](start slotsStart, offset uint64) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(start), offset))
}

// at is a place in a checked array.
func at(start slotsStart, offset int) slotsStart {
	return slotsStart(unsafe.Add(unsafe.Pointer(start), offset))
}

// wordAt views the control word at offset.
func wordAt(memory []byte, offset uint64) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&memory[offset]))
}

// quadAt views the control word of 8 bytes at offset.
func quadAt(memory []byte, offset uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&memory[offset]))
}

// wordFrom views the word at an offset that is inside a checked array.
func wordFrom(start slotsStart, offset uint64) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Add(unsafe.Pointer(start), offset))
}

// wordIn views the word at offset inside an element.
func wordIn[T any](element *T, offset uintptr) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Add(unsafe.Pointer(element), offset))
}

// plainWord is the number inside an atomic one.
func plainWord(w *atomic.Uint32) *uint32 { return (*uint32)(unsafe.Pointer(w)) }

func plainQuad(w *atomic.Uint64) *uint64 { return (*uint64)(unsafe.Pointer(w)) }
