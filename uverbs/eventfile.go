package uverbs

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/goverbs/goverbs/internal/ioctl"
)

// eventReader reads event records for one goroutine at a time, parked in Go's
// netpoller while there are none.
type eventReader struct {
	file ioctl.EventFile
	turn chan struct{} // holds a token while nobody reads
}

func newEventReader(f ioctl.EventFile) *eventReader {
	r := &eventReader{file: f, turn: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	return r
}

// read returns one record into buf. The caller holds the turn. kicked is true
// when somebody asked it to look around; ctx being done is one such reason.
func (r *eventReader) read(ctx context.Context, buf []byte) (kicked bool, err error) {
	stop := context.AfterFunc(ctx, r.kick)
	defer stop()
	n, err := r.file.Read(buf)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		// A kick that comes between here and the reset is lost, so the caller
		// looks at what it could have been about only after this returned.
		if r.file.SetReadDeadline(time.Time{}) != nil {
			return false, ErrClosed // nothing else stops it
		}
		return true, nil
	case errors.Is(err, os.ErrClosed):
		return false, ErrClosed
	case err != nil:
		return false, err
	case n != len(buf):
		return false, errShortEvent
	}
	return false, nil
}

// kick makes the reader of the moment return, or the next one if there is none.
func (r *eventReader) kick() {
	_ = r.file.SetReadDeadline(past) // fails only when the file is closed, which wakes the reader too
}

func (r *eventReader) pass() { r.turn <- struct{}{} }

var (
	past          = time.Unix(1, 0)
	errShortEvent = errors.New("the kernel delivered a truncated event")
)
