package ioctl

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpen uses another device and a file as uverbs nodes.
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

// TestWrite checks that a command is written to the descriptor with one call.
func TestWrite(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	c := doorbell(&device{int(w.Fd())})
	if err := c.Do(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	if n, err := r.Read(b); err != nil || !bytes.Equal(b[:n], c.wire) {
		t.Errorf("% x, %v, want % x", b[:n], err, c.wire)
	}
	if n := testing.AllocsPerRun(100, func() { _ = c.Do() }); n != 0 {
		t.Errorf("Do allocates %v times", n)
	}
	if err := doorbell(&device{-1}).Do(); err != syscall.EBADF {
		t.Error(err)
	}
}

// descriptorCount returns the number of open descriptors, including its own.
func descriptorCount(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestStaleNodeIsClosed checks that a stale node is closed.
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

// interrupted returns a call that signals interrupt three times before it returns err.
func interrupted(calls *int, err syscall.Errno) syscall.Errno {
	if *calls++; *calls <= 3 {
		return syscall.EINTR
	}
	return err
}

// A call is repeated if a signal interrupts it, and only then.
func TestInterrupted(t *testing.T) {
	for _, want := range []syscall.Errno{0, syscall.EINVAL} {
		calls := 0
		err := repeat(func() syscall.Errno { return interrupted(&calls, want) })
		if calls != 4 || want == 0 && err != nil || want != 0 && err != want {
			t.Errorf("%d calls, %v, want %v", calls, err, want)
		}
	}
}
