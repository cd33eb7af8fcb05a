package wait

import (
	"io"
	"time"
)

// Source delivers one event record a Read. Read parks the goroutine in Go's netpoller; a
// read deadline in the past makes it return os.ErrDeadlineExceeded.
//
// One goroutine at a time may Read or Await.
type Source interface {
	io.ReadCloser
	SetReadDeadline(t time.Time) error
	// Await blocks the thread until there is a record to Read, or the limit is over,
	// and reports which. A wake-up from a system call is cheaper than one from the
	// netpoller, but it takes a thread, and a deadline does not end it.
	Await(limit time.Duration) bool
}
