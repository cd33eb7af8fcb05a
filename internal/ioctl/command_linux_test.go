package ioctl

import (
	"bytes"
	"os"
	"syscall"
	"testing"
)

// TestWrite: what a command is goes to the descriptor in one piece.
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
