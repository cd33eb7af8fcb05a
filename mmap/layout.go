package mmap

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
)

// Word returns the control word at a byte offset, for loads and stores that order the memory
// around them. The word must be inside the region, at a multiple of 4. It is valid until
// Close.
func (r *Region) Word(offset int) (*atomic.Uint32, error) {
	memory, err := r.word(offset, 4)
	if err != nil {
		return nil, err
	}
	return wordAt(memory, uint64(offset)), nil
}

// Word64 is like Word, for 8 bytes at a multiple of 8.
func (r *Region) Word64(offset int) (*atomic.Uint64, error) {
	memory, err := r.word(offset, 8)
	if err != nil {
		return nil, err
	}
	return quadAt(memory, uint64(offset)), nil
}

func wordError(offset int, format string, args ...any) error {
	return failed("find", fmt.Sprintf("word at offset %d", offset), fmt.Errorf(format, args...))
}

func ringError(format string, args ...any) error {
	return failed("create", "ring", fmt.Errorf(format, args...))
}

// word returns the memory if it has an aligned word of this size at an offset.
func (r *Region) word(offset, size int) ([]byte, error) {
	memory := r.Bytes()
	if offset < 0 || offset > len(memory)-size {
		return nil, wordError(offset, "it lies outside a region of %d bytes", len(memory))
	}
	if (uint64(address(memory))+uint64(offset))%uint64(size) != 0 {
		return nil, wordError(offset, "it is not aligned to %d bytes", size)
	}
	return memory, nil
}

// checkArray returns an error if memory cannot hold n elements of T, stride bytes apart from
// offset on. All numbers come from the other side.
func checkArray[T any](memory []byte, offset int, n, stride uint32) error {
	size, align := sizeOf[T](), alignOf[T]()
	switch t := reflect.TypeFor[T](); {
	case !isPlain(t):
		return ringError("elements of type %v are not plain integers", t)
	case n == 0 || n&(n-1) != 0:
		return ringError("%d elements: the number must be a power of two", n)
	case uint64(stride) < size || size == 0:
		return ringError("elements of %d bytes can't stand %d bytes apart", size, stride)
	case offset < 0 || offset > len(memory) || uint64(n)*uint64(stride) > uint64(len(memory)-offset):
		return ringError("%d elements of %d bytes from offset %d don't fit in a region of %d bytes",
			n, stride, offset, len(memory))
	case uint64(stride)%align != 0 || (uint64(address(memory))+uint64(offset))%align != 0:
		return ringError("elements at offset %d, %d bytes apart, are not aligned to %d bytes", offset, stride, align)
	}
	return nil
}

// known caches the results of plain: every connection creates four rings of the same types,
// and reflection took a twentieth of the time to connect.
var known sync.Map // reflect.Type to bool

func isPlain(t reflect.Type) bool {
	if is, ok := known.Load(t); ok {
		return is.(bool)
	}
	is := plain(t)
	known.Store(t, is)
	return is
}

// plain reports whether any bytes are a valid value of a type. Pointers and bools must not be
// read from memory that another side writes.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !plain(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64
}

// Array is an array of elements that a provider accesses by index. It has no rules for the
// ownership of an element, which the device's doorbells and completions determine.
type Array[T any] struct {
	start slotsStart
	mask  uint32
}

// NewArray returns an array of n elements in r from a byte offset on. n must be a power of
// two, and the array must fit in r.
func NewArray[T any](r *Region, offset int, n uint32) (Array[T], error) {
	memory := r.Bytes()
	if err := checkArray[T](memory, offset, n, uint32(sizeOf[T]())); err != nil {
		return Array[T]{}, err
	}
	return Array[T]{startOf(memory, offset), n - 1}, nil
}

// At returns an element by its free-running index, which wraps around at the end of the
// array.
func (a Array[T]) At(i uint32) *T {
	return elementFrom[T](a.start, uint64(i&a.mask)*sizeOf[T]())
}
