// Package mmaptest has what tests of providers need of memory: rings that fault.
package mmaptest

import (
	"os"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/mmap"
)

// ReadOnly maps a copy of content, at most a page, read-only until the test ends. A store
// to it is a fault, which tells a test what its ring's user does before the store.
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

// MustFault runs f and fails the test unless f faults. The race detector can't go on
// after a fault on memory that it looks at: such a test is built without it.
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
