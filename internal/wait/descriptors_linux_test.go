package wait

import (
	"os"
	"runtime"
	"testing"
	"time"

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

// collect has the collector find what nobody holds, and the cleanups run.
func collect() {
	for range 3 {
		done := make(chan struct{})
		runtime.AddCleanup(new([64]byte), func(struct{}) { close(done) }, struct{}{})
		runtime.GC()
		<-done
	}
}

// The collector leaves descriptors alone that were closed, because their numbers may
// be other files' by then.
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

// The descriptor of an event file is gone after Close, and after a while when nobody
// holds the file any more, whether the netpoller has it or not.
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

// makeEvents makes an event file, has it park if asked to, and closes or forgets it.
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
