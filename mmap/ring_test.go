package mmap

import (
	"sync/atomic"
	"testing"
)

// element stands for a work queue element: a body, a word, more body.
type element struct {
	ID    uint64
	Flags uint16
	NumG  uint8
	Op    uint8
	Size  uint32
	Data  [3]uint64
}

const (
	elementSize = 40
	elementWord = 8
)

// heap is memory that the race detector watches, unlike a mapping.
func heap(t testing.TB, length int) *Region {
	t.Helper()
	r, err := Wrap(make([]byte, length))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func mustWord(t testing.TB, r *Region, offset int) *atomic.Uint32 {
	t.Helper()
	w, err := r.Word(offset)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (e *element) fill(i int) {
	e.ID = uint64(i)
	e.Size = uint32(i) * 3
	e.Data = [3]uint64{uint64(i), uint64(i) + 1, uint64(i) + 2}
}

func (e *element) holds(i int) bool {
	want := element{}
	want.fill(i)
	return e.ID == want.ID && e.Size == want.Size && e.Data == want.Data
}
