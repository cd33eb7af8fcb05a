package fakeverbs

import (
	"os"
	"sync"
	"time"
)

// memoryEvents is an event descriptor in memory, both ends of it.
type memoryEvents struct {
	mu      sync.Mutex
	records [][]byte
	expired bool // the read deadline is in the past
	closed  bool
	changed chan struct{} // closed and replaced whenever one of these changes
}

func newMemoryEvents() *memoryEvents { return &memoryEvents{changed: make(chan struct{})} }

// change does f, and wakes everybody who waits.
func (m *memoryEvents) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memoryEvents) send(record []byte) {
	m.change(func() { m.records = append(m.records, append([]byte(nil), record...)) })
}

// Await implements [wait.Source]. The deadline does not end it, as it does not end
// a system call.
func (m *memoryEvents) Await(limit time.Duration) bool {
	over := time.NewTimer(limit)
	defer over.Stop()
	for {
		m.mu.Lock()
		some, closed, changed := len(m.records) > 0, m.closed, m.changed
		m.mu.Unlock()
		if some || closed {
			return !closed
		}
		select {
		case <-changed:
		case <-over.C:
			return false
		}
	}
}

// Read implements [wait.Source]. It returns one record.
func (m *memoryEvents) Read(b []byte) (int, error) {
	for {
		n, changed, err := m.readNow(b)
		if n > 0 || err != nil {
			return n, err
		}
		<-changed
	}
}

func (m *memoryEvents) readNow(b []byte) (n int, changed <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return 0, nil, os.ErrClosed
	case m.expired:
		return 0, nil, os.ErrDeadlineExceeded
	case len(m.records) > 0:
		n = copy(b, m.records[0])
		m.records = m.records[1:]
	}
	return n, m.changed, nil
}

// SetReadDeadline implements [wait.Source]. A deadline in the future is none.
func (m *memoryEvents) SetReadDeadline(when time.Time) error {
	m.change(func() { m.expired = !when.IsZero() && !when.After(time.Now()) })
	return nil
}

// Close implements [wait.Source].
func (m *memoryEvents) Close() error {
	m.change(func() { m.closed = true })
	return nil
}
