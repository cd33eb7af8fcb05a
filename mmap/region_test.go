package mmap

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/goverbs/goverbs/internal/regions"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if n := regions.Live(); n != 0 {
		fmt.Fprintln(os.Stderr, n, "regions left open")
		code = 1
	}
	os.Exit(code)
}

func anonymous(t testing.TB, length int) *Region {
	t.Helper()
	r, err := Anonymous(length, nil)
	if runtime.GOOS != "linux" && errors.Is(err, errors.ErrUnsupported) {
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
	if err := r.Close(); !errors.Is(err, net.ErrClosed) {
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

// TestClosedRegion checks that no method returns memory after Close.
func TestClosedRegion(t *testing.T) {
	r := must[*Region](t)(Anonymous(4096, nil))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	layout := IndexedLayout{Slots: 4, Stride: 8, Data: 384, Producer: 128, Consumer: 256}
	for name, err := range map[string]error{
		"Word":               errorOf(r.Word(0)),
		"Word64":             errorOf(r.Word64(0)),
		"NewPage":            errorOf(NewPage(r, nil)),
		"NewFlagProducer":    errorOf(NewFlagProducer[uint64](r, 4, 0)),
		"NewFlagConsumer":    errorOf(NewFlagConsumer[uint64](r, 4, 0)),
		"NewIndexedProducer": errorOf(NewIndexedProducer[uint64](r, layout)),
		"NewIndexedConsumer": errorOf(NewIndexedConsumer[uint64](r, layout)),
	} {
		if err == nil {
			t.Errorf("%s works on a closed region", name)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

func TestLive(t *testing.T) {
	before := regions.Live()
	r := must[*Region](t)(Anonymous(1, nil))
	if regions.Live() != before+1 {
		t.Errorf("Live %d, want %d", regions.Live(), before+1)
	}
	if err := r.Close(); err != nil || regions.Live() != before {
		t.Errorf("Live %d, want %d; %v", regions.Live(), before, err)
	}
}

// TestWrapUntil checks that Close calls the function once.
func TestWrapUntil(t *testing.T) {
	calls := 0
	r, err := WrapUntil(make([]byte, 8), func() { calls++ })
	if err != nil || calls != 0 || r.Len() != 8 {
		t.Fatal(err, calls)
	}
	if err := r.Close(); err != nil || calls != 1 {
		t.Error(err, calls)
	}
	if err := r.Close(); err == nil || calls != 1 {
		t.Error("closed twice:", err, calls)
	}
	if _, err := WrapUntil(nil, nil); err == nil {
		t.Error("no memory was wrapped")
	}
}

// TestCloseAtTheSameTime checks that concurrent calls of Close unmap a region once: by the second
// time, the address may belong to another mapping.
func TestCloseAtTheSameTime(t *testing.T) {
	var r *Region
	unmapped := 0
	r = track(&Region{data: make([]byte, 1), unmap: func([]byte) error {
		unmapped++
		if err := r.Close(); !errors.Is(err, net.ErrClosed) {
			t.Error("a Close during another:", err)
		}
		return nil
	}})
	if err := r.Close(); err != nil || unmapped != 1 {
		t.Errorf("unmapped %d times, %v", unmapped, err)
	}
}
