package ioctl

import (
	"bytes"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestAwait: a pipe stands in for the kernel's file.
func TestAwait(t *testing.T) {
	const ever = time.Hour
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	e, err := EventsOf(r)
	if err != nil {
		t.Fatal(err)
	}
	if e.Await(time.Millisecond) {
		t.Error("something to read in an empty pipe")
	}
	if _, err := w.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if err := e.SetReadDeadline(time.Unix(1, 0)); err != nil || !e.Await(ever) {
		t.Error("nothing to read", err)
	}
	if err := e.SetReadDeadline(time.Time{}); err != nil {
		t.Error(err)
	}
	if n := testing.AllocsPerRun(100, func() { e.Await(ever) }); n != 0 {
		t.Errorf("Await allocates %v times", n)
	}
	b := make([]byte, 4)
	if n, err := e.Read(b); err != nil || string(b[:n]) != "abc" {
		t.Errorf("read %q, %v", b[:n], err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Read(b); !e.Await(ever) || err != io.EOF {
		t.Error("the end is not told", err)
	}
	if err := e.Close(); err != nil || e.Await(ever) {
		t.Error("something to read in a closed file", err)
	}
}

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
