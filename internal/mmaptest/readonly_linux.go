// Package mmaptest provides memory that faults on stores, for tests of providers' rings.
package mmaptest

import (
	"os"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/mmap"
)

// ReadOnly maps a copy of content read-only until the test ends. content has at most a page.
// A store to the region faults, so that a test can check the steps before the store.
func ReadOnly(t *testing.T, content []byte) *mmap.Region {
	t.Helper()
	fd, err := unix.MemfdCreate("ring", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	memory := make([]byte, os.Getpagesize())
	copy(memory, content)
	if _, err := unix.Write(fd, memory); err != nil {
		t.Fatal(err)
	}
	region, err := mmap.Map(fd, 0, len(memory), mmap.ProtRead)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := region.Close(); err != nil {
			t.Error(err)
		}
	})
	return region
}

// MustFault runs f and fails the test unless f faults. The race detector cannot continue
// after a fault on memory that it checks, so build such a test without it.
func MustFault(t *testing.T, f func()) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() == nil {
			t.Error("no fault: nothing was stored")
		}
	}()
	f()
}
