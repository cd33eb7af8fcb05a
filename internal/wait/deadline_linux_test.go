package wait

import (
	"errors"
	"os"
	"testing"
	"time"
)

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

// A deadline counts whether it is set before the first Read, which makes the file
// known to the netpoller, or afterwards; and one that is taken back does not.
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

// A deadline that is set while a Read is parked ends it.
func TestDeadlineWakesReader(t *testing.T) {
	e, _ := newEvents(t)
	done := read(e)
	if err := e.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	ends(t, done, os.ErrDeadlineExceeded)
}

// What was awaited is not read when the deadline is over.
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
