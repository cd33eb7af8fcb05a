package ioctl

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// descriptorCount is how many descriptors the process has, with that of the question.
func descriptorCount(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// A node that is another device's by now is closed.
func TestStaleNodeIsClosed(t *testing.T) {
	before := descriptorCount(t)
	for range 10 {
		if _, err := Open("/dev/null", unix.Mkdev(231, 192)); !errors.Is(err, ErrStaleNode) {
			t.Error(err)
		}
	}
	if n := descriptorCount(t); n != before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
}
