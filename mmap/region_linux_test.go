package mmap

import (
	"errors"
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

// No machine has that many huge pages, so the message can be had anywhere; the
// pool itself may be empty or not.
func TestHugePages(t *testing.T) {
	_, err := Anonymous(math.MaxInt/2, &AnonymousOptions{Huge: true})
	if !errors.Is(err, unix.ENOMEM) || !strings.Contains(err.Error(), "vm.nr_hugepages") {
		t.Errorf("an impossible length: %v", err)
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
