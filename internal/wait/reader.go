package wait

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Reader reads the records of a source. Only the goroutine that holds the turn reads.
type Reader struct {
	source Source
	turn   Turn
	kicked func() // kick, made once, because a method value allocates
	closed atomic.Bool

	mu     sync.Mutex    // guards the fields below
	synced chan struct{} // closed when all records have been taken; nil if no Sync waits
	ended  bool          // Serve has returned

	// The holder of the turn owns these.
	record   []byte
	patience patience
	done     <-chan struct{} // of the context that kicks when it is done
	stop     func() bool     // ends that
}

// NewReader returns a reader that owns the source. recordSize is the size of a record in
// bytes.
func NewReader(s Source, recordSize int) *Reader {
	r := &Reader{source: s, record: make([]byte, recordSize)}
	r.kicked = r.kick
	r.turn.Init(r.kicked)
	return r
}

// Serve calls take for each record, and returns the error that ends the source: os.ErrClosed after
// Close. A record is valid until take returns. Serve is called once.
func (r *Reader) Serve(take func(record []byte)) error {
	defer r.endSyncs()
	_ = r.turn.Acquire(context.Background(), nil)
	defer r.turn.Release()
	for {
		record, kicked, err := r.read(context.Background(), false)
		switch {
		case err != nil:
			return err
		case !kicked:
			take(record)
			continue
		}
		for synced := r.takeSynced(); synced != nil; synced = r.takeSynced() { // a kick of the next Sync may be lost below
			err := r.drain(take)
			close(synced)
			if err != nil {
				return err
			}
		}
	}
}

// drain calls take for the records that need not be waited for.
func (r *Reader) drain(take func(record []byte)) error {
	for r.source.Await(0) {
		record, kicked, err := r.read(context.Background(), false)
		switch {
		case err != nil:
			return err
		case !kicked:
			take(record)
		}
	}
	return nil
}

// Sync returns once take has returned for all records that were there when Sync was called, or
// Serve has ended. take must not call it.
func (r *Reader) Sync() {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return
	}
	if r.synced == nil {
		r.synced = make(chan struct{})
	}
	synced := r.synced
	r.mu.Unlock()
	r.kick()
	<-synced
}

// takeSynced returns the channel that the current calls of Sync wait for, or nil if there are none.
func (r *Reader) takeSynced() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	synced := r.synced
	r.synced = nil
	return synced
}

// endSyncs lets all calls of Sync return.
func (r *Reader) endSyncs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.synced != nil {
		close(r.synced)
	}
}

// Close closes the source. It waits for the goroutine that reads, because a thread
// blocked in a system call keeps the kernel's file open.
func (r *Reader) Close() error {
	r.closed.Store(true)
	r.kick()
	_ = r.turn.Acquire(context.Background(), nil)
	defer r.turn.Release()
	r.watch(context.Background())
	return r.source.Close()
}

// read returns one record, which is valid until the next call. kicked reports that there is
// no record, because of a kick. alone means that there is no other waiter, so that the
// thread may be held. The caller holds the turn.
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
		// A kick between here and the reset is lost. So the caller checks for the
		// reasons of kicks only after this call has returned.
		if r.source.SetReadDeadline(time.Time{}) != nil {
			return nil, false, os.ErrClosed // otherwise nothing would stop it
		}
		return nil, true, nil
	case err != nil:
		return nil, false, err
	case n != len(r.record):
		return nil, false, errShort
	}
	return r.record, false, nil
}

// watch arranges a kick for when ctx is done, instead of that for the previous context.
// Waiting again with the same context, as a loop does, changes nothing and allocates
// nothing. The caller holds the turn.
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

// kick makes the current reader return, or the next one if there is none.
func (r *Reader) kick() {
	_ = r.source.SetReadDeadline(past) // it fails only when the source is closed, which ends a read too
}

var (
	past     = time.Unix(1, 0)
	errShort = errors.New("the kernel delivered a truncated event")
)

// patience decides whether a waiter blocks its thread in ppoll for up to holdTime before it
// parks. A wake-up by the netpoller costs epoll and two passes of the scheduler. A
// goroutine that returns from ppoll continues at once. Blocking pays only if peers answer
// within that time, so each time it was in vain, more of the next waits park at once.
type patience struct {
	skip  uint8 // how many of the next waits park at once
	grown uint8 // the last value that skip was set to
	waits uint8 // since the last runtime.Gosched
}

const (
	// holdTime is longer than a round trip of a message.
	holdTime    = 500 * time.Microsecond
	mostSkipped = 64
	yieldAfter  = 16
)

// held counts the threads that are blocked in ppoll. At most GOMAXPROCS - 1 may be, so
// that other goroutines can run meanwhile.
var (
	held    atomic.Int32
	maxHeld = int32(runtime.GOMAXPROCS(0)) - 1
)

// await returns when there is a record to read, or when it is better to park.
func (p *patience) await(f Source) {
	if p.skip > 0 {
		p.skip--
		return
	}
	if held.Add(1) > maxHeld {
		held.Add(-1)
		return
	}
	p.learn(f.Await(holdTime))
	held.Add(-1)
	// If a goroutine runs for 10 ms without being scheduled, the runtime's monitor, which
	// looks every 20 µs, takes its processor at each system call.
	if p.waits++; p.waits%yieldAfter == 0 {
		runtime.Gosched()
	}
}

func (p *patience) learn(came bool) {
	if came {
		p.grown = 0
		return
	}
	p.grown = min(max(1, 2*p.grown), mostSkipped)
	p.skip = p.grown
}
