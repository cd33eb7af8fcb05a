package wait

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// noDescriptors uses up what the process may open until the test ends.
func noDescriptors(t *testing.T) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	limit := old
	limit.Cur = 64
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	})
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == unix.EMFILE {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
	}
}

// An event file waits in the netpoller, again and again, in a process that is out
// of descriptors by then.
func TestParkWithoutDescriptors(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	e, err := OpenFile(r)
	if err != nil {
		t.Fatal(err)
	}
	awaited := func(n int) {
		t.Helper()
		for range n {
			if _, err := w.Write([]byte("a")); err != nil {
				t.Fatal(err)
			}
			if !e.Await(1 << 40) {
				t.Fatal("nothing came")
			}
			if _, err := e.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	parked := func() {
		t.Helper()
		if _, err := w.Write([]byte("a")); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Read(make([]byte, 1)); err != nil { // not awaited
			t.Fatal(err)
		}
	}
	parked()
	awaited(unparkAfter) // forgotten by the netpoller
	noDescriptors(t)
	if _, err := unix.Dup(0); err != unix.EMFILE {
		t.Fatal("descriptors are left:", err)
	}
	parked()
	awaited(unparkAfter) // would be forgotten
	parked()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := e.Close(); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if _, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil { // that which Close gave back
		t.Error(err)
	}
}

// An event file needs no descriptor but its own. That is not an os.File's, which the
// collector would close once more.
func TestEventsWithoutDescriptors(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[1])
	noDescriptors(t)
	e := Open(pipe[0])
	if _, err := unix.Write(pipe[1], []byte("a")); err != nil {
		t.Fatal(err)
	}
	if n, err := e.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Error(n, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := unix.Close(pipe[0]); err != unix.EBADF {
		t.Error("the descriptor was left open:", err)
	}
}
