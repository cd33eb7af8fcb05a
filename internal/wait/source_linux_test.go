package wait

import (
	"io"
	"os"
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
	e, err := OpenFile(r)
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
