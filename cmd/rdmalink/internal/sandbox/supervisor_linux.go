package sandbox

import (
	"errors"
	"io"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/record"
)

// supervisor answers the system calls of all processes of a sandbox.
type supervisor struct {
	listener int
	hosts    []*machine
	files    *files
	trap     bool // a tracer sees all stores to registers
	old      bool // mlx5-old

	receiving sync.Mutex // the next call
	numbering sync.Mutex // a descriptor, from the search for a free number until it is given

	mu       sync.Mutex
	recorder *record.Recorder // nil: nothing is recorded
	openings []*device
	failed   error // of the sandbox itself
}

// workers is the number of calls that are answered concurrently. A call that has to wait
// occupies none of them.
const workers = 4

// serve answers calls until no process is left.
func (s *supervisor) serve() {
	wakeHere(s.listener)
	var busy sync.WaitGroup
	for range workers {
		busy.Go(s.work)
	}
	busy.Wait()
	_ = unix.Close(s.listener)
}

func (s *supervisor) work() {
	for {
		var n notification
		err := s.next(&n)
		switch {
		case errors.Is(err, unix.ENOENT): // the caller was killed
		case err != nil:
			return
		default:
			s.answer(n)
		}
	}
}

// answer answers a call.
func (s *supervisor) answer(n notification) {
	switch c, err := s.accept(n); {
	case err == unix.ESRCH: // the caller was killed
	case err != nil:
		c.answer(failed(err))
	default:
		c.answer(c.handle())
	}
}

// next receives a call, or returns io.EOF when no process is left under the filter. Kernels
// differ in whether receiving itself ever ends then, so it is polled for.
func (s *supervisor) next(n *notification) error {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	p := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(p, -1)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case p[0].Revents&unix.POLLIN == 0:
			return io.EOF
		default:
			return receive(s.listener, n)
		}
	}
}
