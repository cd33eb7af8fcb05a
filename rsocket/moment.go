package rsocket

import (
	"context"
	"os"
	"sync"
	"time"
)

// moment is a context that is done when somebody says so. It waits without a goroutine
// and is used for many calls.
type moment struct {
	done chan struct{}

	mu    sync.Mutex // guards what follows
	after func()     // to call when done is closed
}

func newMoment() *moment { return &moment{done: make(chan struct{})} }

// come has the moment be there.
func (m *moment) come() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Err() != nil {
		return
	}
	close(m.done)
	if m.after != nil {
		go m.after()
	}
}

// Done implements [context.Context].
func (m *moment) Done() <-chan struct{} { return m.done }

// Err implements [context.Context].
func (m *moment) Err() error {
	select {
	case <-m.done:
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

// Deadline implements [context.Context].
func (m *moment) Deadline() (at time.Time, ok bool) { return at, false }

// Value implements [context.Context].
func (m *moment) Value(any) any { return nil }

// AfterFunc spares [context.AfterFunc] a goroutine. There is one function at a time: that
// of the call that waits for events.
func (m *moment) AfterFunc(f func()) (stop func() bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Err() != nil {
		go f()
		return func() bool { return false }
	}
	m.after = f
	return m.stop
}

func (m *moment) stop() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	waited := m.after != nil && m.Err() == nil
	m.after = nil
	return waited
}

var _ context.Context = (*moment)(nil)
