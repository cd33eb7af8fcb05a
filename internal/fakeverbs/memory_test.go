package fakeverbs

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
)

// TestOwn checks that memory is reused only after all holders have released it, and is zero then.
func TestOwn(t *testing.T) {
	for name, c := range map[string]struct {
		from *[mostPages + 1]spare
		rest int
	}{"the kernel's": {newSpares(0), 0}, "user space's": {newSpares(3), 3}} {
		t.Run(name, func(t *testing.T) {
			size := 2 * PageSize
			o := newOwn(c.from, size, PageSize)
			one, two := view(t, o, size), view(t, o, 8)
			two.Bytes()[7] = 1
			if one.Bytes()[7] != 1 {
				t.Error("two views of a queue differ")
			}
			closed(t, one)
			if other := newOwn(c.from, size, PageSize); other == o {
				t.Fatal("memory that somebody holds was given away")
			}
			closed(t, two)
			for range c.rest {
				other := newOwn(c.from, size, PageSize)
				if other == o {
					t.Fatal("memory of user space was given away at once")
				}
				closed(t, view(t, other, size))
			}
			if again := newOwn(c.from, size, PageSize); again != o || again.bytes[7] != 0 {
				t.Error("memory is not used again, or not zero")
			}
		})
	}
}

// TestOwnLong checks that only a limited amount of short memory is kept for reuse, and no long memory.
func TestOwnLong(t *testing.T) {
	from := newSpares(0)
	for _, pages := range []int{mostPages + 1, mostPages, 1} {
		var held []*mmap.Region
		for range mostSpare + 1 {
			held = append(held, view(t, newOwn(from, pages*PageSize, PageSize), PageSize))
		}
		for _, r := range held {
			closed(t, r)
		}
	}
	for pages := range from {
		if n := len(from[pages].queue); n > mostSpare || n*pages*PageSize > mostBytes {
			t.Errorf("%d pieces of %d pages are kept", n, pages)
		}
	}
}

func view(t *testing.T, o *own, length int) *mmap.Region {
	t.Helper()
	r, err := o.region(length)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func closed(t *testing.T, r *mmap.Region) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReturnStrange checks that returning memory that was not lent is a violation and has no other
// effect.
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

// TestReturnShorter checks that the end of a region doesn't affect a longer one with the same
// address.
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

// TestLentMany compares lent memory, of which pieces overlap, come and go, with a list of it.
func TestLentMany(t *testing.T) {
	type loan struct {
		addr uint64
		size int
	}
	const space, few = 4096, 64
	memory := make([]byte, space)
	random := rand.New(rand.NewPCG(1, 2))
	k := New(abi.RDMA_DRIVER_UNKNOWN)
	var loans []loan
	for range 10 * few {
		if len(loans) > 2*few || random.IntN(3) == 0 && len(loans) > 0 {
			i := random.IntN(len(loans))
			// Of several loans from one address the shortest ends.
			for j, l := range loans {
				if l.addr == loans[i].addr && l.size < loans[i].size {
					i = j
				}
			}
			k.Return(loans[i].addr)
			loans = slices.Delete(loans, i, i+1)
		} else {
			l := loan{uint64(random.IntN(space)), 1 + random.IntN(64)}
			l.size = min(l.size, space-int(l.addr))
			k.Lend(l.addr, memory[l.addr:][:l.size])
			loans = append(loans, l)
		}
		for range few {
			addr, size := uint64(random.IntN(space)), uint64(1+random.IntN(32))
			want := slices.ContainsFunc(loans, func(l loan) bool { return l.addr <= addr && addr+size <= l.addr+uint64(l.size) })
			if err := k.User.Check(addr, size); (err == nil) != want {
				t.Fatalf("%d bytes at %d: %v; lent: %v", size, addr, err, loans)
			}
		}
	}
	for _, l := range loans {
		k.Return(l.addr)
	}
	if leaks := k.lent.leaks(); len(leaks) != 0 || len(k.Violations()) != 0 {
		t.Errorf("%q, %q", leaks, k.Violations())
	}
}

// TestLentGone checks that a queue that has been closed holds no memory.
func TestLentGone(t *testing.T) {
	k := New(abi.RDMA_DRIVER_UNKNOWN)
	var queues []*mmap.Region
	for range 10 {
		r, err := k.Alloc(PageSize, nil)
		if err != nil {
			t.Fatal(err)
		}
		queues = append(queues, r)
	}
	for i, r := range queues {
		closed(t, r)
		if err := k.User.Check(r.Addr(), 1); err != syscall.EFAULT {
			t.Errorf("the memory of queue %d: %v", i, err)
		}
		if n := len(k.lent.pieces); n != len(queues)-1-i {
			t.Errorf("%d queues are left of %d", n, len(queues)-1-i)
		}
	}
}

// TestNumbers checks that the next number is the lowest free one, and a freed number is reused.
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

// TestLongWork checks that the sum of an SGL's lengths does not wrap around.
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

// TestDescriptors checks that the lowest free descriptor is next, also after one that could not be
// opened.
func TestDescriptors(t *testing.T) {
	k := New(abi.RDMA_DRIVER_UNKNOWN)
	open := func() *channel {
		t.Helper()
		c, err := k.newChannel()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first, second := open(), open()
	if first.fd != firstFD || second.fd != firstFD+1 {
		t.Errorf("%d and %d", first.fd, second.fd)
	}
	first.close()
	k.Channel = func(int32) (Events, error) { return nil, syscall.EMFILE }
	if _, err := k.newChannel(); err != syscall.EMFILE {
		t.Error(err)
	}
	k.Channel = nil
	again := open()
	if again.fd != firstFD {
		t.Errorf("%d after %d was closed", again.fd, firstFD)
	}
	again.close()
	second.close()
}
