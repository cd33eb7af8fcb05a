package mmap

// Array is a ring's worth of elements that a provider reaches by index. It has no rules
// of its own for who owns an element: the device's doorbells and completions have.
type Array[T any] struct {
	start slotsStart
	mask  uint32
}

// NewArray views n elements of r from a byte offset on. n must be a power of two. A
// number that comes from the other side and doesn't fit in r is an error.
func NewArray[T any](r *Region, offset int, n uint32) (Array[T], error) {
	memory := r.Bytes()
	if err := checkArray[T](memory, offset, n, uint32(sizeOf[T]())); err != nil {
		return Array[T]{}, err
	}
	return Array[T]{startOf(memory, offset), n - 1}, nil
}

// At returns an element by its free-running index: the index wraps around at the end of
// the array.
func (a Array[T]) At(i uint32) *T {
	return elementFrom[T](a.start, uint64(i&a.mask)*sizeOf[T]())
}
