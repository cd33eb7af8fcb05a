package wait

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// Reader reads the records of a source for one goroutine at a time, the one that has the
// turn.
type Reader struct {
	source   Source
	turn     chan struct{} // holds a token while nobody reads
	record   []byte        // the turn's
	patience patience      // the turn's
	kicked   func()        // kick, made once
	closed   atomic.Bool

	done <-chan struct{} // of the context that kicks when it is done; the turn's
	stop func() bool     // ends that; the turn's
}

// NewReader takes over a source whose records have the given size, in bytes.
func NewReader(s Source, recordSize int) *Reader {
	r := &Reader{source: s, turn: make(chan struct{}, 1), record: make([]byte, recordSize)}
	r.kicked = r.kick
	r.turn <- struct{}{}
	return r
}

// Read waits for a record. Several goroutines may call it; each record goes to one. It
// returns ctx.Err() when ctx ends first, and os.ErrClosed after Close.
func (r *Reader) Read(ctx context.Context) ([]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.turn:
	}
	defer r.pass()
	for ctx.Err() == nil {
		record, kicked, err := r.read(ctx, false)
		if err != nil || !kicked {
			return bytes.Clone(record), err
		}
	}
	return nil, ctx.Err()
}

// Close closes the source. It waits for the goroutine that reads, because a thread
// blocked in a system call keeps the kernel's file open.
func (r *Reader) Close() error {
	r.closed.Store(true)
	r.kick()
	<-r.turn
	defer r.pass()
	r.watch(context.Background())
	return r.source.Close()
}

// read returns one record, which is valid until the next call. The caller has the turn.
// kicked is true when the caller should look around. alone says that there is no other
// waiter, so that the thread may be held.
func (r *Reader) read(ctx context.Context, alone bool) (record []byte, kicked bool, err error) {
	if r.closed.Load() {
		return nil, false, os.ErrClosed
	}
	r.watch(ctx)
	if alone {
		r.patience.await(r.source)
	}
	n, err := r.source.Read(r.record)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		// A kick that comes between here and the reset is lost, so the caller
		// looks at what it could have been about only after this returned.
		if r.source.SetReadDeadline(time.Time{}) != nil {
			return nil, false, os.ErrClosed // nothing else stops it
		}
		return nil, true, nil
	case err != nil:
		return nil, false, err
	case n != len(r.record):
		return nil, false, errShort
	}
	return r.record, false, nil
}

// watch has ctx, and no other context, kick when it is done. Waiting again with the same
// context, as a loop does, changes nothing and allocates nothing. The caller has the turn.
func (r *Reader) watch(ctx context.Context) {
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

// kick makes the reader of the moment look around, or the next one if there is none.
func (r *Reader) kick() {
	_ = r.source.SetReadDeadline(past) // fails only when the source is closed, which ends a read too
}

// tryTurn takes the turn if nobody reads.
func (r *Reader) tryTurn() bool {
	select {
	case <-r.turn:
		return true
	default:
		return false
	}
}

func (r *Reader) pass() { r.turn <- struct{}{} }

var (
	past     = time.Unix(1, 0)
	errShort = errors.New("the kernel delivered a truncated event")
)
