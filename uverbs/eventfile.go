package uverbs

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/internal/ioctl"
)

// eventReader reads event records for one goroutine at a time, parked in Go's
// netpoller while there are none, after its patience has run out.
type eventReader struct {
	file   ioctl.EventFile
	turn   chan struct{} // holds a token while nobody reads
	record []byte        // the turn's
	kicked func()        // kick, made once
	closed atomic.Bool

	mu   sync.Mutex      // guards what follows
	done <-chan struct{} // of the context that kicks when it is done
	stop func() bool     // ends that

	patience patience // the turn's
}

func newEventReader(f ioctl.EventFile, recordSize int) *eventReader {
	r := &eventReader{file: f, turn: make(chan struct{}, 1), record: make([]byte, recordSize)}
	r.kicked = r.kick
	r.turn <- struct{}{}
	return r
}

// watch has ctx, and no other context, kick when it is done. A loop that waits with the
// same context again allocates nothing.
func (r *eventReader) watch(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Done() == r.done {
		return
	}
	if r.stop != nil {
		r.stop()
	}
	if r.done, r.stop = ctx.Done(), nil; r.done != nil {
		r.stop = context.AfterFunc(ctx, r.kicked)
	}
}

// close lets go of the context as well. It waits for the reader, because a thread in a
// system call keeps the kernel's file open.
func (r *eventReader) close() error {
	r.closed.Store(true)
	r.kick()
	<-r.turn
	defer r.pass()
	r.watch(context.Background())
	return r.file.Close()
}

// read returns one record, which is good until the next. The caller holds the turn.
// kicked is true when somebody asked it to look around; ctx being done is one such
// reason. alone says that nobody else wants to be woken out of it.
func (r *eventReader) read(ctx context.Context, alone bool) (record []byte, kicked bool, err error) {
	if r.closed.Load() {
		return nil, false, ErrClosed
	}
	r.watch(ctx)
	if alone {
		r.patience.await(r.file)
	}
	n, err := r.file.Read(r.record)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		// A kick that comes between here and the reset is lost, so the caller
		// looks at what it could have been about only after this returned.
		if r.file.SetReadDeadline(time.Time{}) != nil {
			return nil, false, ErrClosed // nothing else stops it
		}
		return nil, true, nil
	case errors.Is(err, os.ErrClosed):
		return nil, false, ErrClosed
	case err != nil:
		return nil, false, err
	case n != len(r.record):
		return nil, false, errShortEvent
	}
	return r.record, false, nil
}

// kick makes the reader of the moment return, or the next one if there is none.
func (r *eventReader) kick() {
	_ = r.file.SetReadDeadline(past) // fails only when the file is closed, which wakes the reader too
}

// tryTurn takes the turn if nobody reads.
func (r *eventReader) tryTurn() bool {
	select {
	case <-r.turn:
		return true
	default:
		return false
	}
}

func (r *eventReader) pass() { r.turn <- struct{}{} }

var (
	past          = time.Unix(1, 0)
	errShortEvent = errors.New("the kernel delivered a truncated event")
)
