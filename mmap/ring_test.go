package mmap

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// heap returns memory of the heap, which the race detector watches, unlike a mapping.
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

// TestDoc checks that the documentation of the package names each kind of ring.
func TestDoc(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[string]bool)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^type (\w+)(Producer|Consumer)\[`).FindAllStringSubmatch(string(source), -1) {
			kinds[m[1]] = true
			if !strings.Contains(string(text), "["+m[1]+m[2]+"]") {
				t.Errorf("doc.go does not name %s%s", m[1], m[2])
			}
		}
	}
	if number := map[int]string{2: "two", 3: "three", 4: "four"}[len(kinds)]; !strings.Contains(string(text), number+" kinds of rings") {
		t.Errorf("there are %d kinds of rings, which doc.go does not say", len(kinds))
	}
}
