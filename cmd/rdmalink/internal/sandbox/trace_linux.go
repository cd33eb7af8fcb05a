package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// tracer traces all processes of a sandbox, so that they stop at each store to a register.
// Those pages are beyond the end of the device's file: a store to one raises SIGBUS, which
// the tracer intercepts. It carries out the store for the process and resumes the process
// behind it.
type tracer struct {
	s    *supervisor
	done chan struct{} // closed when all processes have ended
}

// trace begins to watch a thread that is about to become the command. An error says that
// there can be no tracer.
func (s *supervisor) trace(l *launched) (*tracer, error) {
	t := &tracer{s: s, done: make(chan struct{})}
	seized := make(chan error)
	go func() {
		runtime.LockOSThread() // only this thread may give orders
		err := seize(l.thread, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACEFORK|unix.PTRACE_O_TRACEVFORK|unix.PTRACE_O_EXITKILL)
		seized <- err
		if err == nil {
			t.watch()
		}
	}()
	if err := <-seized; err != nil {
		return nil, fmt.Errorf("--trap: ptrace: %w: whatever runs this forbids it, as some containers do (docker run --cap-add SYS_PTRACE), or traces it already", err)
	}
	return t, nil
}

// watch resumes stopped processes until all have ended.
func (t *tracer) watch() {
	defer close(t.done)
	for {
		var status unix.WaitStatus
		thread, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil) // those that this thread traces
		switch {
		case err == unix.EINTR:
		case err != nil:
			return
		case status.Stopped():
			t.resume(thread, status)
		default:
			t.s.setStopped(thread, false)
		}
	}
}

// resume lets a stopped thread run. Calls fail for one that was killed in the meantime.
func (t *tracer) resume(thread int, status unix.WaitStatus) {
	signal := status.StopSignal()
	switch event := int(status) >> 16; {
	case event == unix.PTRACE_EVENT_STOP && isStop(signal):
		t.s.setStopped(leaderOf(thread), true)
		_ = listen(thread)
	case event == unix.PTRACE_EVENT_STOP: // a new thread, or the end of a stop
		t.s.setStopped(leaderOf(thread), false)
		_ = unix.PtraceCont(thread, 0)
	case event != 0:
		_ = unix.PtraceCont(thread, 0)
	case signal == unix.SIGBUS && t.store(thread):
		_ = unix.PtraceCont(thread, 0)
	default:
		_ = unix.PtraceCont(thread, int(signal))
	}
}

// leaderOf returns the process of a thread.
func leaderOf(thread int) int {
	p, err := openProcess(thread)
	if err != nil {
		return thread
	}
	defer p.close()
	return p.leader()
}

// isStop reports whether a signal stops processes until SIGCONT.
func isStop(s unix.Signal) bool {
	return s == unix.SIGSTOP || s == unix.SIGTSTP || s == unix.SIGTTIN || s == unix.SIGTTOU
}

// store carries out a store to a register at which a thread has stopped. It reports false if
// the signal is the program's own affair.
func (t *tracer) store(thread int) bool {
	addr, err := faultAddress(thread)
	if err != nil {
		return false
	}
	// The number is the thread's until the tracer has waited for its end.
	p, err := openProcess(thread)
	if err != nil {
		return false
	}
	defer p.close()
	d, key, offset, ok := t.s.register(p, addr)
	if !ok {
		return false
	}
	stored, err := emulate(p)
	if errors.Is(err, unix.ESRCH) {
		return true // it was killed meanwhile
	}
	if err != nil {
		t.s.fail(fmt.Errorf("--trap: %w", err))
		return false
	}
	// Registers are of 8 bytes at most. A longer store is one to each, in order.
	for at := 0; at < len(stored); at += 8 {
		var word [8]byte
		n := copy(word[:], stored[at:])
		d.kernel.Store(key, offset+at, n, binary.LittleEndian.Uint64(word[:]))
	}
	return true
}

// register finds the register that a process has mapped at an address.
func (s *supervisor) register(p *process, addr uint64) (d *device, key int64, offset int, ok bool) {
	f, at, ok := s.files.mapped(p, addr)
	if !ok {
		return nil, 0, 0, false
	}
	page := int64(unix.Getpagesize())
	key, offset = at&^(page-1), int(at&(page-1))
	d, ok = f.(*device)
	return d, key, offset, ok && d.registers.has(key)
}

// fail ends the sandbox with an error.
func (s *supervisor) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil { // a program may repeat what failed without end
		s.failed = err
	}
}

func (s *supervisor) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}
