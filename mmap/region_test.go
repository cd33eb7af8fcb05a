package mmap

import (
	"errors"
	"math"
	"os"
	"runtime/pprof"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if n := Live(); n != 0 {
		os.Stderr.WriteString("regions left open:\n")
		pprof.Lookup(LiveProfile).WriteTo(os.Stderr, 1)
		code = 1
	}
	os.Exit(code)
}

func anonymous(t testing.TB, length int) *Region {
	t.Helper()
	r, err := Anonymous(length, nil)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestAnonymousRoundsUpAndIsZeroed(t *testing.T) {
	page := os.Getpagesize()
	for _, c := range []struct{ length, want int }{{1, page}, {page, page}, {page + 1, 2 * page}} {
		r := anonymous(t, c.length)
		if r.Len() != c.want || len(r.Bytes()) != c.want {
			t.Errorf("length %d: Len %d, %d bytes, want %d", c.length, r.Len(), len(r.Bytes()), c.want)
		}
		if r.Addr()%uint64(page) != 0 || r.Addr() == 0 {
			t.Errorf("length %d: address %#x", c.length, r.Addr())
		}
		for i, b := range r.Bytes() {
			if b != 0 {
				t.Fatalf("byte %d is %d", i, b)
			}
		}
		r.Bytes()[c.want-1] = 1
	}
}

func TestUnusableLengths(t *testing.T) {
	for _, length := range []int{0, -1, math.MinInt, math.MaxInt} {
		_, err := Anonymous(length, nil)
		if !errors.Is(err, os.ErrInvalid) {
			t.Errorf("Anonymous(%d): %v", length, err)
		}
		if _, err = Map(0, 0, length, ProtRead); !errors.Is(err, os.ErrInvalid) {
			t.Errorf("Map(%d): %v", length, err)
		}
	}
	if _, err := Wrap(nil); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("Wrap(nil): %v", err)
	}
}

func TestCloseTwice(t *testing.T) {
	memory := make([]byte, 64)
	r, err := Wrap(memory)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if r.Bytes() != nil || r.Len() != 64 {
		t.Errorf("after Close: %d bytes, Len %d", len(r.Bytes()), r.Len())
	}
	if _, err := r.Word(0); err == nil {
		t.Error("a closed region gave a word")
	}
	memory[0] = 1 // still the caller's
}

func TestLiveNamesTheMaker(t *testing.T) {
	before := Live()
	r := anonymous(t, 1)
	if Live() != before+1 {
		t.Errorf("Live %d, want %d", Live(), before+1)
	}
	var b strings.Builder
	if err := pprof.Lookup(LiveProfile).WriteTo(&b, 1); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "mmap.anonymous") || strings.Contains(b.String(), "mmap.track") {
		t.Errorf("the profile should start at the caller of Anonymous:\n%s", b.String())
	}
	_ = r
}
