package abi

import "unsafe"

// Bytes returns the memory of *v, for calls that carry a struct as bytes.
func Bytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
