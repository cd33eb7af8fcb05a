package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"syscall"
	"time"
)

// later answers a call once wait returns. wait returns false when ctx ends before there is an answer.
func (c *call) later(ctx context.Context, wait func(ctx context.Context) (r result, ok bool)) result {
	ctx, cancel := context.WithCancel(ctx)
	answered := make(chan bool, 1)
	go func() {
		r, ok := wait(ctx)
		if ok {
			c.answer(r)
		}
		answered <- ok
	}()
	go c.attend(func() bool {
		cancel()
		return !<-answered
	})
	return result{later: true}
}

// restartSys is the kernel's ERESTARTSYS. No process sees it: the kernel handles the signal, and then
// carries out the call again, or fails it with EINTR if the signal's handler lacks SA_RESTART.
const restartSys = syscall.Errno(512)

// interval is the time between two looks at a caller that waits.
const interval = 20 * time.Millisecond

// attend interrupts a call that is answered later when its thread has a signal to handle, as the kernel
// interrupts its own calls. The kernel does not interrupt calls that a supervisor answers: it only ends
// callers that a signal kills, and not even those if they are traced. withdraw is called once, also when
// the caller was killed or has its answer. It reports whether the call now remains without an answer.
func (c *call) attend(withdraw func() bool) {
	for looks := 0; c.waits(); time.Sleep(interval) {
		enough, any := c.signaled()
		if !any {
			looks = 0
			continue
		}
		if looks++; looks < enough {
			continue
		}
		if withdraw() {
			c.answer(result{errno: restartSys})
		}
		return
	}
	if withdraw() {
		c.close()
	}
}

// signaled reports whether the caller has a signal to handle, and how many looks in a row must find one.
// A thread that has none must not be interrupted, because it would see ERESTARTSYS. A signal of the whole
// process is the leader's, unless the leader blocks it or another thread is about to handle it.
func (c *call) signaled() (looks int, any bool) {
	const few, many = 2, 10
	own := c.signals()
	leader := own.leader == c.id
	switch {
	case own.thread&^own.blocked != 0, !leader && c.stopped(own.leader):
		return few, true
	case own.process&^own.blocked == 0:
		return 0, false
	case leader:
		return few, true
	}
	return many, true
}

// signals are those of a thread and its process that are to be handled, and those that the thread
// blocks.
type signals struct {
	leader                   int
	thread, process, blocked uint64
}

func (p *process) signals() (s signals) {
	for line := range bytes.Lines(p.readFile("status")) {
		name, value, _ := bytes.Cut(line, []byte(":\t"))
		switch string(name) {
		case "Tgid":
			_, _ = fmt.Sscanf(string(value), "%d", &s.leader)
		case "SigPnd":
			_, _ = fmt.Sscanf(string(value), "%x", &s.thread)
		case "ShdPnd":
			_, _ = fmt.Sscanf(string(value), "%x", &s.process)
		case "SigBlk":
			_, _ = fmt.Sscanf(string(value), "%x", &s.blocked)
		}
	}
	return s
}

// stopped reports whether a process is being stopped by a signal. It stops when all threads have.
func (s *supervisor) stopped(leader int) bool {
	if s.trap { // a thread stops for its tracer too, so only the tracer knows
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.stops[leader]
	}
	p, err := openProcess(leader)
	if err != nil {
		return false
	}
	defer p.close()
	return bytes.Contains(p.readFile("status"), []byte("\nState:\tT"))
}

// setStopped notes what the tracer learns about a process.
func (s *supervisor) setStopped(leader int, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is {
		s.stops[leader] = true
	} else {
		delete(s.stops, leader)
	}
}
