package wait

import (
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// file is a [Source] on a descriptor. The descriptor is registered with the netpoller
// only while goroutines park on it. Otherwise each event would wake an idle thread of
// the runtime for nothing, in addition to the thread that blocks in ppoll.
type file struct {
	fd      int
	cleanup runtime.Cleanup // closes fd, unless parked has it
	came    bool            // a record has been awaited and not been read yet
	quick   int             // records in a row that have been awaited

	mu     sync.Mutex // guards the fields below
	parked *os.File   // fd as an os.File if it is registered with the netpoller
	due    time.Time  // the read deadline
	closed bool
}

// Open returns a source that owns a non-blocking descriptor.
func Open(fd int) Source {
	e := new(file)
	e.own(fd)
	return e
}

// own makes the descriptor e's, and closes it when e becomes unreachable.
func (e *file) own(fd int) {
	e.fd = fd
	e.cleanup = runtime.AddCleanup(e, func(fd int) { _ = unix.Close(fd) }, fd)
}

// OpenFile returns a source that owns a non-blocking file, such as a pipe of a fake
// kernel.
func OpenFile(f *os.File) (Source, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	if failed := conn.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); failed != nil || err != nil {
		return nil, errors.Join(failed, err)
	}
	_ = f.Close() // the descriptor is gone in any case
	return Open(fd), nil
}

// Read implements [Source].
func (e *file) Read(b []byte) (int, error) {
	if e.came {
		e.came = false
		if n, err := e.readNow(b); err != unix.EAGAIN {
			return n, err
		}
	}
	f, err := e.park()
	if err != nil {
		return 0, err
	}
	return f.Read(b)
}

// readNow reads an awaited record, unless the deadline has passed.
func (e *file) readNow(b []byte) (int, error) {
	e.mu.Lock()
	due, closed := e.due, e.closed
	e.mu.Unlock()
	switch {
	case closed:
		return 0, os.ErrClosed
	case !due.IsZero() && !due.After(time.Now()):
		return 0, os.ErrDeadlineExceeded
	}
	n, err := unix.Read(e.fd, b) // which can't be interrupted, for it does not block
	if err == nil && n == 0 {
		err = io.EOF
	}
	return max(n, 0), err
}

// park registers the file with the netpoller.
func (e *file) park() (*os.File, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, os.ErrClosed
	}
	if e.parked != nil {
		return e.parked, nil
	}
	e.cleanup.Stop() // the os.File has its own
	e.parked = os.NewFile(uintptr(e.fd), "infinibandevent")
	return e.parked, e.parked.SetReadDeadline(e.due)
}

// unparkAfter is the number of records in a row that have to be awaited before the file
// is removed from the netpoller. Registering it again costs three system calls.
const unparkAfter = 16

// unpark removes the file from the netpoller. That takes another descriptor, because an
// os.File can only be closed. If the process has none left, the file stays.
func (e *file) unpark() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.parked == nil {
		return
	}
	another, err := unix.FcntlInt(uintptr(e.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	_ = e.parked.Close() // the descriptor is gone in any case
	e.parked = nil
	e.own(another)
}

// Await implements [Source].
func (e *file) Await(limit time.Duration) bool {
	if e.came = readable(e.fd, limit); !e.came {
		e.quick = 0
		return false
	}
	if e.quick++; e.quick == unparkAfter {
		e.unpark()
	}
	return true
}

// readable waits for at most limit until the descriptor is readable, and reports
// whether it is.
func readable(fd int, limit time.Duration) bool {
	// Linux writes the remaining time to it.
	timeout := unix.NsecToTimespec(limit.Nanoseconds())
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Ppoll(fds[:], &timeout, nil)
	return n > 0 && err == nil && fds[0].Revents&unix.POLLNVAL == 0
}

// SetReadDeadline implements [Source].
func (e *file) SetReadDeadline(due time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.due = due; {
	case e.closed:
		return os.ErrClosed
	case e.parked != nil:
		return e.parked.SetReadDeadline(due)
	}
	return nil
}

// Close implements [Source]. No goroutine may be in Read or Await.
func (e *file) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return os.ErrClosed
	}
	e.closed = true
	if e.parked != nil {
		return e.parked.Close()
	}
	e.cleanup.Stop()
	return unix.Close(e.fd)
}
