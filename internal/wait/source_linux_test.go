package wait

import (
	"errors"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAwait awaits records of a pipe, which stands in for the kernel's file.
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
		t.Error("the end is not reported", err)
	}
	if err := e.Close(); err != nil || e.Await(ever) {
		t.Error("something to read in a closed file", err)
	}
}

func newEvents(t *testing.T) (Source, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	e, err := OpenFile(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(e.Close(), w.Close()); err != nil {
			t.Error(err)
		}
	})
	return e, w
}

func read(e Source) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := e.Read(make([]byte, 1))
		done <- err
	}()
	return done
}

func ends(t *testing.T, done <-chan error, want error) {
	t.Helper()
	select {
	case err := <-done:
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("Read hangs")
	}
}

// TestDeadline checks that a deadline counts whether it is set before or after the first Read, which
// registers the file with the netpoller. A deadline that is taken back does not count.
func TestDeadline(t *testing.T) {
	e, w := newEvents(t)
	past := time.Unix(1, 0)
	set := func(due time.Time) {
		t.Helper()
		if err := e.SetReadDeadline(due); err != nil {
			t.Fatal(err)
		}
	}
	set(past)
	ends(t, read(e), os.ErrDeadlineExceeded)
	set(time.Time{})
	if _, err := w.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	ends(t, read(e), nil)
	set(past)
	ends(t, read(e), os.ErrDeadlineExceeded)
}

// TestDeadlineWakesReader checks that a deadline that is set while a Read is parked ends the Read.
func TestDeadlineWakesReader(t *testing.T) {
	e, _ := newEvents(t)
	done := read(e)
	if err := e.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	ends(t, done, os.ErrDeadlineExceeded)
}

// TestDeadlineAfterAwait checks that after the deadline, an awaited record is not read.
func TestDeadlineAfterAwait(t *testing.T) {
	e, w := newEvents(t)
	if _, err := w.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	if !e.Await(time.Hour) {
		t.Fatal("nothing came")
	}
	if err := e.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	ends(t, read(e), os.ErrDeadlineExceeded)
}

// descriptorCount returns the number of descriptors of the process, including one for
// the count itself.
func descriptorCount(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// collect runs the garbage collector and the cleanups.
func collect() {
	for range 3 {
		done := make(chan struct{})
		runtime.AddCleanup(new([64]byte), func(struct{}) { close(done) }, struct{}{})
		runtime.GC()
		<-done
	}
}

// TestClosedEventsAreNotClosedAgain checks that the collector does not close descriptors that were
// closed, because their numbers may belong to other files by then.
func TestClosedEventsAreNotClosedAgain(t *testing.T) {
	for _, parked := range []bool{false, true} {
		makeEvents(t, parked, true)
		var reused []int
		for range 3 {
			fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			reused = append(reused, fd)
		}
		collect()
		for _, fd := range reused {
			if err := unix.Close(fd); err != nil {
				t.Errorf("parked %v: descriptor %d was closed by somebody else: %v", parked, fd, err)
			}
		}
	}
}

// TestEventsLeaveNoDescriptor checks that the descriptor of a source is closed by Close, or by the
// collector when the source is unreachable, whether the netpoller has it or not.
func TestEventsLeaveNoDescriptor(t *testing.T) {
	before := descriptorCount(t)
	for _, closed := range []bool{true, false} {
		for _, parked := range []bool{false, true} {
			makeEvents(t, parked, closed)
			for end := time.Now().Add(time.Minute); descriptorCount(t) != before; collect() {
				if closed || time.Now().After(end) {
					t.Fatalf("closed %v, parked %v: %d descriptors, %d before", closed, parked, descriptorCount(t), before)
				}
			}
		}
	}
}

// makeEvents opens a source, parks on it if parked is set, and closes it if closed is
// set.
func makeEvents(t *testing.T, parked, closed bool) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	e, err := OpenFile(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	if parked {
		if _, err := e.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !closed {
		return
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// noDescriptors opens all descriptors that the process may open, until the test ends.
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

// TestParkWithoutDescriptors checks that a source parks in the netpoller, repeatedly, in a process
// that has run out of descriptors.
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

// TestEventsWithoutDescriptors checks that a source needs no descriptor but its own. It is not that
// of an os.File, which the collector would close again.
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
