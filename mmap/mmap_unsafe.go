package mmap

import (
	"sync/atomic"
	"unsafe"
)

// The functions in this file rely on the checks of the constructors and in layout.go.

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

func address(b []byte) uintptr { return uintptr(pointer(b)) }

// memoryAt returns the memory at an address, such as the kernel has just mapped.
func memoryAt(start unsafe.Pointer, size int) []byte { return unsafe.Slice((*byte)(start), size) }

func sizeOf[T any]() uint64 { return uint64(unsafe.Sizeof(*new(T))) }

func alignOf[T any]() uint64 { return uint64(unsafe.Alignof(*new(T))) }

// slotsStart is the start of a checked array.
type slotsStart unsafe.Pointer

func startOf(memory []byte, offset int) slotsStart { return slotsStart(&memory[offset]) }

func startOfWord(w *atomic.Uint32) slotsStart { return slotsStart(w) }

// bytesFrom returns the n bytes of a slice that begins at start.
func bytesFrom(start slotsStart, n int) []byte { return memoryAt(unsafe.Pointer(start), n) }

// elementFrom returns the element at an offset, which must be below the array's length: a
// masked index times the stride.
func elementFrom[T any](start slotsStart, offset uint64) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(start), offset))
}

// wordAt returns the control word at an offset.
func wordAt(memory []byte, offset uint64) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&memory[offset]))
}

// quadAt returns the control word of 8 bytes at an offset.
func quadAt(memory []byte, offset uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&memory[offset]))
}

// wordFrom returns the word at an offset inside a checked array.
func wordFrom(start slotsStart, offset uint64) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Add(unsafe.Pointer(start), offset))
}

// wordIn returns the word at an offset inside an element.
func wordIn[T any](element *T, offset uintptr) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Add(unsafe.Pointer(element), offset))
}

// plainWord returns the integer inside an atomic.Uint32.
func plainWord(w *atomic.Uint32) *uint32 { return (*uint32)(unsafe.Pointer(w)) }

func plainQuad(w *atomic.Uint64) *uint64 { return (*uint64)(unsafe.Pointer(w)) }
