package mmap

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMapShares(t *testing.T) {
	fd, err := unix.MemfdCreate("mmap-test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	page := os.Getpagesize()
	if err := unix.Ftruncate(fd, int64(2*page)); err != nil {
		t.Fatal(err)
	}
	r, err := Map(fd, int64(page), 10, ProtRead|ProtWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Len() != page {
		t.Errorf("Len %d, want a page", r.Len())
	}
	copy(r.Bytes(), "ring")
	got := make([]byte, 4)
	if _, err := unix.Pread(fd, got, int64(page)); err != nil || string(got) != "ring" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	readOnly, err := Map(fd, int64(page), page, ProtRead)
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	if string(readOnly.Bytes()[:4]) != "ring" {
		t.Errorf("the second mapping holds %q", readOnly.Bytes()[:4])
	}
}

func TestMapNamesErrnoAndOffset(t *testing.T) {
	_, err := Map(-1, 0x5000, 1, ProtRead)
	if !errors.Is(err, unix.EBADF) || !strings.Contains(err.Error(), "offset 0x5000") {
		t.Errorf("bad descriptor: %v", err)
	}
}

// No machine has that many huge pages, so the error does not depend on the pool's size.
func TestHugePages(t *testing.T) {
	_, err := Anonymous(math.MaxInt/2, &AnonymousOptions{Huge: true})
	if !errors.Is(err, unix.ENOMEM) || !strings.Contains(err.Error(), "vm.nr_hugepages") {
		t.Errorf("an impossible length: %v", err)
	}
	if qemuUser() {
		t.Skip("qemu-user can't map huge pages")
	}
	r, err := Anonymous(1, &AnonymousOptions{Huge: true})
	if err != nil {
		if !errors.Is(err, unix.ENOMEM) || !strings.Contains(err.Error(), "vm.nr_hugepages by 1") {
			t.Errorf("one huge page: %v", err)
		}
		return
	}
	if r.Len() != hugePage {
		t.Errorf("Len %d, want %d", r.Len(), hugePage)
	}
	r.Bytes()[hugePage-1] = 1
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestAlign maps memory with each alignment, each time below another page, so that the kernel's choice differs.
func TestAlign(t *testing.T) {
	for align := 1; align <= hugePage; align <<= 1 {
		for _, length := range []int{1, 3 * os.Getpagesize(), hugePage + 1} {
			between := must[*Region](t)(Anonymous(1, nil))
			r := must[*Region](t)(Anonymous(length, &AnonymousOptions{Align: align}))
			size, _ := roundUp(length, os.Getpagesize())
			if r.Addr()%uint64(align) != 0 || r.Len() != size || cap(r.Bytes()) != size {
				t.Errorf("%d bytes with alignment %d: %d (%d) at %#x", length, align, r.Len(), cap(r.Bytes()), r.Addr())
			}
			r.Bytes()[0], r.Bytes()[size-1] = 1, 1
			if err := errors.Join(r.Close(), between.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	for _, align := range []int{-1, -8, 3, 6144, 2 * hugePage} {
		if _, err := Anonymous(1, &AnonymousOptions{Align: align}); !errors.Is(err, os.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("alignment %d ", align)) {
			t.Errorf("alignment %d: %v", align, err)
		}
	}
	if _, err := Anonymous(math.MaxInt-2*hugePage, &AnonymousOptions{Align: hugePage}); !errors.Is(err, unix.ENOMEM) {
		t.Errorf("an impossible length: %v", err)
	}
}

// TestAlignLeavesNothing checks that the pages around aligned memory are unmapped.
func TestAlignLeavesNothing(t *testing.T) {
	before := mappedBytes(t)
	for range 50 {
		if err := must[*Region](t)(Anonymous(1, &AnonymousOptions{Align: hugePage})).Close(); err != nil {
			t.Error(err)
		}
	}
	if grown := mappedBytes(t) - before; grown > 10*hugePage {
		t.Errorf("%d bytes more are mapped", grown)
	}
}

// mappedBytes returns the size of all writable mappings. The Go runtime's reservations are not writable.
func mappedBytes(t *testing.T) (sum uint64) {
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile("/proc/self/maps")))) {
		var from, to uint64
		var rights string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); n == 3 && strings.HasPrefix(rights, "rw") {
			sum += to - from
		}
	}
	return sum
}

// qemuUser reports whether make arm64 runs the test, which emulates the processor and some
// system calls.
func qemuUser() bool { return os.Getenv("GOVERBS_QEMU_USER") != "" }

// TestDontFork looks for the flag dc (do not copy) of the mapping.
func TestDontFork(t *testing.T) {
	if qemuUser() {
		t.Skip("qemu-user ignores MADV_DONTFORK and writes /proc/self/smaps itself")
	}
	for _, dontFork := range []bool{false, true} {
		r := must[*Region](t)(Anonymous(1, &AnonymousOptions{DontFork: dontFork}))
		if got := strings.Contains(vmFlags(t, r.Addr()), " dc "); got != dontFork {
			t.Errorf("DontFork %v: the mapping is kept out of children: %v", dontFork, got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func vmFlags(t *testing.T, addr uint64) string {
	maps := string(must[[]byte](t)(os.ReadFile("/proc/self/smaps")))
	found := false
	for line := range strings.Lines(maps) {
		var from, to uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			found = from <= addr && addr < to
		} else if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && found {
			return strings.TrimRight(flags, "\n") + " "
		}
	}
	t.Fatalf("no mapping at %#x", addr)
	return ""
}

// TestMapPage stores to a file through a page.
func TestMapPage(t *testing.T) {
	fd := must[int](t)(unix.MemfdCreate("mmap-test", unix.MFD_CLOEXEC))
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(2*os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	p := must[*Page](t)(MapPage(fd, int64(os.Getpagesize()), 1))
	p.Store32(8, 0x64636261)
	got := make([]byte, 4)
	if _, err := unix.Pread(fd, got, int64(os.Getpagesize()+8)); err != nil || string(got) != "abcd" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if p, err := MapPage(fd, 1, 1); err == nil {
		t.Errorf("a page of %d bytes at offset 1", p.Len())
	}
}
