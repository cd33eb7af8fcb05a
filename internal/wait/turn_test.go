package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// mailbox is a worker that delivers values to the channels of waiters.
type mailbox struct {
	turn   Turn
	values chan int
	woken  chan struct{}
	boxes  [2]chan int
	works  int
}

func newMailbox() *mailbox {
	m := &mailbox{values: make(chan int), woken: make(chan struct{}, 1), boxes: [2]chan int{make(chan int, 1), make(chan int, 1)}}
	m.turn.Init(func() {
		select {
		case m.woken <- struct{}{}:
		default:
		}
	})
	return m
}

var errWork = errors.New("the work fails")

func (m *mailbox) Work(ctx context.Context) (done bool, err error) {
	m.works++
	select {
	case v, ok := <-m.values:
		switch {
		case !ok:
			return false, ErrRetire
		case v < 0:
			return false, errWork
		}
		m.boxes[v%2] <- v
	case <-m.woken:
	case <-ctx.Done():
	}
	return false, nil
}

type result struct {
	v   int
	err error
}

// await starts a waiter for a box, and returns when it sleeps.
func (m *mailbox) await(ctx context.Context, box int, end <-chan struct{}) <-chan result {
	got := make(chan result, 1)
	go func() {
		v, err := Await(ctx, &m.turn, m, m.boxes[box], end)
		got <- result{v, err}
	}()
	synctest.Wait()
	return got
}

func (m *mailbox) send(v int) {
	m.values <- v
	synctest.Wait()
}

// The leader works for a follower, which leads as soon as the leader has its value.
func TestTurnLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMailbox()
		leader, follower := m.await(t.Context(), 0, nil), m.await(t.Context(), 1, nil)
		m.send(1)
		if got := <-follower; got != (result{1, nil}) {
			t.Error(got)
		}
		follower = m.await(t.Context(), 1, nil)
		m.send(2)
		if got := <-leader; got != (result{2, nil}) {
			t.Error(got)
		}
		m.send(3)
		if got := <-follower; got != (result{3, nil}) {
			t.Error(got)
		}
		if !m.turn.TryAcquire() {
			t.Error("the turn is still held")
		}
	})
}

// A leader and a follower return when something else ends their waits.
func TestTurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMailbox()
		for range 2 { // the first leads
			ctx, cancel := context.WithCancel(t.Context())
			canceled := m.await(ctx, 0, nil)
			end := make(chan struct{})
			ended := m.await(t.Context(), 0, end)
			cancel()
			if got := <-canceled; got.err != context.Canceled {
				t.Error(got)
			}
			synctest.Wait() // the other one leads now
			close(end)
			m.turn.Wake()
			if got := <-ended; got.err != ErrEnded {
				t.Error(got)
			}
		}
		failed := m.await(t.Context(), 0, nil)
		m.send(-1)
		if got := <-failed; got.err != errWork {
			t.Error(got)
		}
		if m.turn.IsSleeping() || !m.turn.TryAcquire() {
			t.Error("the turn is still held")
		}
	})
}

// Acquire waits for Release, a context or an end.
func TestTurnAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn Turn
		if turn.TryAcquire() {
			t.Error("acquired before Init")
		}
		turn.Init(nil)
		if err := turn.Acquire(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		end := make(chan struct{}, 1)
		end <- struct{}{}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := turn.Acquire(t.Context(), end); err != ErrEnded {
			t.Error(err)
		}
		if err := turn.Acquire(short, end); err != context.DeadlineExceeded {
			t.Error(err)
		}
		acquired := make(chan error)
		for range 3 {
			go func() { err := turn.Acquire(t.Context(), nil); acquired <- err; turn.Release() }()
		}
		synctest.Wait()
		turn.Release()
		for range 3 {
			if err := <-acquired; err != nil {
				t.Error(err)
			}
		}
	})
}

// The background works while there is no waiter, lets a waiter lead, and comes back.
func TestTurnBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMailbox()
		m.turn.StartBackground(m)
		inBackground := func(want bool) {
			t.Helper()
			synctest.Wait()
			if m.turn.InBackground() != want {
				t.Errorf("in the background: %v", !want)
			}
		}
		time.Sleep(idleTime)
		inBackground(true)
		m.send(2)
		if got := <-m.boxes[0]; got != 2 {
			t.Error(got)
		}
		waiter := m.await(t.Context(), 1, nil)
		inBackground(false)
		m.send(3)
		if got := <-waiter; got != (result{3, nil}) {
			t.Error(got)
		}
		time.Sleep(idleTime) // notices that a waiter had the turn
		inBackground(false)
		time.Sleep(idleTime)
		inBackground(true)
		m.turn.StopBackground()
		inBackground(false)
		m.turn.StopBackground()
		if m.turn.TryAcquire() {
			t.Error("the turn is free")
		}
	})
}

// When there will be no more work, nobody acquires the turn, and waits end by other means.
func TestTurnRetires(t *testing.T) {
	for _, background := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMailbox()
			m.turn.StartBackground(m)
			var waiter <-chan result
			if background {
				time.Sleep(idleTime)
				synctest.Wait()
			} else {
				waiter = m.await(t.Context(), 0, nil)
			}
			close(m.values)
			synctest.Wait()
			if background {
				waiter = m.await(t.Context(), 0, nil)
			}
			works := m.works
			m.boxes[0] <- 4
			if got := <-waiter; got != (result{4, nil}) {
				t.Error(got)
			}
			m.turn.StopBackground()
			time.Sleep(time.Minute)
			if m.works != works || m.turn.TryAcquire() {
				t.Error("somebody works on")
			}
		})
	}
}

// A wait allocates nothing.
func TestTurnAllocs(t *testing.T) {
	m := newMailbox()
	m.values = make(chan int, 1)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		m.values <- 2
		if v, err := Await(ctx, &m.turn, m, m.boxes[0], nil); v != 2 || err != nil {
			t.Error(v, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
