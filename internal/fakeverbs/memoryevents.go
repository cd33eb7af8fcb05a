package fakeverbs

import (
	"os"
	"sync"
	"time"
)

// memoryEvents is an event descriptor in memory, both ends of it.
type memoryEvents struct {
	mu      sync.Mutex
	changed sync.Cond      // of what follows
	records []memoryRecord // the first taken of them were read
	taken   int
	expired bool // the read deadline is in the past
	closed  bool
	ended   error // behind the records
}

// memoryRecord is one event.
type memoryRecord struct {
	b [24]byte
	n int
}

func newMemoryEvents() *memoryEvents {
	m := new(memoryEvents)
	m.changed.L = &m.mu
	return m
}

// unlock wakes everybody who waits.
func (m *memoryEvents) unlock() {
	m.mu.Unlock()
	m.changed.Broadcast()
}

// send cuts off what is longer than any event.
func (m *memoryEvents) send(record []byte) {
	m.mu.Lock()
	defer m.unlock()
	if m.taken == len(m.records) {
		m.records, m.taken = m.records[:0], 0
	}
	m.records = append(m.records, memoryRecord{})
	r := &m.records[len(m.records)-1]
	r.n = copy(r.b[:], record)
}

// end has reading end with an error, behind the records.
func (m *memoryEvents) end(err error) {
	m.mu.Lock()
	defer m.unlock()
	m.ended = err
}

// Await implements [wait.Source]. Waking up is as cheap in Read as here, so it never waits.
func (m *memoryEvents) Await(time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return (m.taken < len(m.records) || m.ended != nil) && !m.closed
}

// Read implements [wait.Source]. It returns one record.
func (m *memoryEvents) Read(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		switch {
		case m.closed:
			return 0, os.ErrClosed
		case m.expired:
			return 0, os.ErrDeadlineExceeded
		case m.taken < len(m.records):
			r := &m.records[m.taken]
			m.taken++
			return copy(b, r.b[:r.n]), nil
		case m.ended != nil:
			return 0, m.ended
		}
		m.changed.Wait()
	}
}

// SetReadDeadline implements [wait.Source]. A deadline in the future is none.
func (m *memoryEvents) SetReadDeadline(when time.Time) error {
	m.mu.Lock()
	defer m.unlock()
	m.expired = !when.IsZero() && !when.After(time.Now())
	return nil
}

// Close implements [wait.Source].
func (m *memoryEvents) Close() error {
	m.mu.Lock()
	defer m.unlock()
	m.closed = true
	return nil
}
