package wait

import (
	"encoding/binary"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// tape is a source of the records that a test puts on it.
type tape struct {
	records chan uint64
	kick    chan struct{}
}

func newTape() tape { return tape{make(chan uint64, 4), make(chan struct{}, 1)} }

func (s tape) Read(b []byte) (int, error) {
	select {
	case n := <-s.records:
		binary.NativeEndian.PutUint64(b, n)
		return recordSize, nil
	case <-s.kick:
		return 0, os.ErrDeadlineExceeded
	}
}

func (s tape) SetReadDeadline(when time.Time) error {
	select {
	case <-s.kick:
	default:
	}
	if !when.IsZero() {
		s.kick <- struct{}{}
	}
	return nil
}

func (tape) Await(time.Duration) bool { return false }
func (tape) Close() error             { return nil }

// start has a waiter join and wait, and returns when it is parked or queued.
func start(t *testing.T, l *Listener) <-chan error {
	done := make(chan error, 1)
	l.Join()
	go func() { done <- l.Wait(t.Context()) }()
	synctest.Wait()
	return done
}

// The end of a listener reaches its waiters, parked or queued, and no others.
func TestEndWakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTape()
		ch := NewChannel(s)
		l, other := newListener(ch, 1), newListener(ch, 2)
		parked, queued := start(t, l), start(t, l)
		stays := start(t, other)
		l.End()
		for _, done := range []<-chan error{parked, queued} {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if len(stays) != 0 {
			t.Error("another listener's waiter returned")
		}
		s.records <- 2
		if err := <-stays; err != nil {
			t.Error(err)
		}
	})
}

// One event wakes one waiter, which wakes the next when it leaves.
func TestLeaveWakesNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTape()
		l := newListener(NewChannel(s), 1)
		first, next := start(t, l), start(t, l)
		s.records <- 1
		synctest.Wait()
		if len(first)+len(next) != 1 {
			t.Fatalf("%d waiters were woken by one event", len(first)+len(next))
		}
		l.Leave()
		<-first
		<-next
	})
}

// An event is counted when it was read, whoever read it.
func TestCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTape()
		ch := NewChannel(s)
		l, other := newListener(ch, 1), newListener(ch, 2)
		counted := make(map[*Listener]int)
		for _, l := range []*Listener{l, other} {
			l.Counted = func() { counted[l]++ }
		}
		done := start(t, l)
		s.records <- 2
		s.records <- 1
		if err := <-done; err != nil {
			t.Error(err)
		}
		if counted[l] != 1 || counted[other] != 1 {
			t.Errorf("%d and %d events were counted", counted[l], counted[other])
		}
	})
}
