package fakeverbs

import (
	"slices"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
)

// TestReturnStrange: memory that comes back without having been lent is a violation, and
// nothing else happens.
func TestReturnStrange(t *testing.T) {
	k := New(abi.RDMA_DRIVER_UNKNOWN)
	b := make([]byte, 64)
	k.Lend(0x1000, b)
	k.Return(0x2000)
	if got := k.Violations(); !slices.Equal(got, []string{"memory at 0x2000 was returned that was not lent"}) {
		t.Errorf("%q", got)
	}
	if leaks := k.lent.leaks(); len(leaks) != 1 {
		t.Errorf("%q", leaks)
	}
	k.Return(0x1000)
	if leaks := k.lent.leaks(); len(leaks) != 0 || len(k.Violations()) != 1 {
		t.Errorf("%q, %q", leaks, k.Violations())
	}
}

// TestReturnShorter: a region within another one, with the same address, ends alone.
func TestReturnShorter(t *testing.T) {
	for _, lengths := range [][2]int{{64, 16}, {16, 64}} {
		k := New(abi.RDMA_DRIVER_UNKNOWN)
		b := make([]byte, 64)
		for _, n := range lengths {
			k.Lend(0x1000, b[:n])
		}
		k.Return(0x1000)
		if err := k.User.Write(0x1000, b); err != nil {
			t.Errorf("%v: %v", lengths, err)
		}
		k.Return(0x1000)
		if leaks := k.lent.leaks(); len(leaks) != 0 || len(k.Violations()) != 0 {
			t.Errorf("%q, %q", leaks, k.Violations())
		}
	}
}

// TestNumbers: the lowest free number is next, and one that is free again comes again.
func TestNumbers(t *testing.T) {
	var n Numbers
	taken := map[uint32]bool{2: true}
	for _, want := range []uint32{0, 1, 3} {
		if got := n.Take(func(i uint32) bool { return taken[i] }); got != want {
			t.Errorf("%d, want %d", got, want)
		}
		taken[want] = true
	}
	for _, free := range []uint32{3, 1} {
		delete(taken, free)
		n.Free(free)
	}
	for _, want := range []uint32{1, 3, 4} {
		if got := n.Take(func(i uint32) bool { return taken[i] }); got != want {
			t.Errorf("%d, want %d", got, want)
		}
		taken[want] = true
	}
}

// TestLongWork: the lengths of an SGL do not wrap around.
func TestLongWork(t *testing.T) {
	w := &Work{SGL: []SGE{{Length: 1 << 31}, {Length: 1<<31 + 5}}}
	if got := w.Len(); got != 1<<32-1 {
		t.Error(got)
	}
	w.SGL[1].Length = 7
	if got := w.Len(); got != 1<<31+7 {
		t.Error(got)
	}
}
