package wait

import (
	"encoding/binary"
	"os"
	"sync"
	"time"
)

// The pauses of a polled source double while nothing happens.
const (
	firstPause = 10 * time.Microsecond
	lastPause  = time.Millisecond
)

// polled is a [Source] for a kernel that delivers no events.
type polled struct {
	due  func() (number uint64, ok bool)
	wake chan struct{} // holds a token after a change of the fields below

	mu     sync.Mutex // guards the fields below
	kicked bool
	closed bool
}

// Poll returns a source whose records are the numbers that due returns. It calls due after pauses of up to a
// millisecond.
func Poll(due func() (number uint64, ok bool)) Source {
	return &polled{due: due, wake: make(chan struct{}, 1)}
}

// Read implements [Source].
func (p *polled) Read(b []byte) (int, error) {
	timer := time.NewTimer(firstPause)
	defer timer.Stop()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if err := p.state(); err != nil {
			return 0, err
		}
		if number, ok := p.due(); ok {
			return copy(b, binary.NativeEndian.AppendUint64(nil, number)), nil
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-p.wake:
		}
	}
}

func (p *polled) state() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return os.ErrClosed
	case p.kicked:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Await implements [Source].
func (p *polled) Await(time.Duration) bool { return false }

// SetReadDeadline implements [Source], for a time in the past and for none.
func (p *polled) SetReadDeadline(t time.Time) error {
	return p.set(func() { p.kicked = !t.IsZero() })
}

// Close implements [Source].
func (p *polled) Close() error { return p.set(func() { p.closed = true }) }

func (p *polled) set(change func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return os.ErrClosed
	}
	change()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return nil
}
