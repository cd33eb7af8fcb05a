package wait

import (
	"io"
	"time"
)

// Source delivers one event record per Read. Read parks the goroutine in Go's
// netpoller. A read deadline in the past makes it return os.ErrDeadlineExceeded.
//
// Only one goroutine at a time may call Read or Await.
type Source interface {
	io.ReadCloser
	SetReadDeadline(t time.Time) error
	// Await blocks the thread until there is a record to Read or limit has passed, and
	// reports whether there is a record. A wake-up from a system call is cheaper than one from the
	// netpoller, but it takes a thread, and a deadline does not end it.
	Await(limit time.Duration) bool
}
