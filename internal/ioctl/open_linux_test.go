package ioctl

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpen stands another device and a file in for uverbs nodes.
func TestOpen(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "uverbs0"), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Open("/dev/null", unix.Mkdev(231, 192)); !errors.Is(err, ErrStaleNode) {
		t.Error(err)
	}
	f, err := Open("/dev/null", unix.Mkdev(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	if err := New(0, 0, 0).Do(f); !errors.Is(err, syscall.ENOTTY) || !Unsupported(err) {
		t.Errorf("an ioctl of /dev/null: %v", err)
	}
	if _, err := f.Events(-1); !errors.Is(err, syscall.EBADF) {
		t.Errorf("descriptor -1: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
