package abi

import "unsafe"

// Bytes returns the memory of *v, for calls that carry a struct as bytes.
func Bytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// Line returns the memory of 64 bytes.
func Line(words *[8]uint64) *[64]byte { return (*[64]byte)(unsafe.Pointer(words)) }
