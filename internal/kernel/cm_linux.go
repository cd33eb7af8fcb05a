package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cmFile is an event channel of the running kernel. A write fetches an event and there is no
// read, so the Read and Write of os.File cannot wait for events.
type cmFile struct {
	f   *os.File
	raw syscall.RawConn
}

func openCM() (CM, error) {
	f, err := os.OpenFile(CMPath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	// Without the netpoller, each waiter would block a thread.
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		f.Close()
		return nil, fmt.Errorf("the file cannot be polled (is it the rdma_cm device node?): %w", err)
	}
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &cmFile{f: f, raw: raw}, nil
}

func (f *cmFile) Command(in, out []byte) error {
	c := calls.Get().(*call)
	defer calls.Put(c)
	c.in = in
	// Control takes no lock: a slow CONNECT must not delay the commands of other IDs.
	err := f.raw.Control(c.issue)
	runtime.KeepAlive(out)
	if err != nil {
		return err
	}
	return c.err
}

func (f *cmFile) Await(ctx context.Context, in, out []byte) error {
	defer runtime.KeepAlive(out)
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { f.f.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
	}
	c := calls.Get().(*call)
	defer calls.Put(c)
	c.in = in
	for {
		if err := ctx.Err(); err != nil {
			if failed := f.raw.Control(c.issue); failed != nil {
				return failed
			}
			if c.err != unix.EAGAIN {
				return c.err
			}
			return err
		}
		err := f.raw.Read(c.issueUntilReady)
		switch {
		case err == nil:
			return c.err
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
		// This call's context has ended, as the loop's next check finds, or the deadline
		// was left by the context of an earlier call.
		if err := f.f.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	}
}

// call is a command that is being issued. Calls are reused, because new closures for each
// command would be garbage.
type call struct {
	in              []byte
	err             error
	issue           func(fd uintptr)
	issueUntilReady func(fd uintptr) bool
}

var calls = sync.Pool{New: func() any {
	c := new(call)
	c.issue = func(fd uintptr) { c.err = writeCommand(int(fd), c.in) }
	c.issueUntilReady = func(fd uintptr) bool {
		c.issue(fd)
		return c.err != unix.EAGAIN
	}
	return c
}}

func (f *cmFile) Descriptor(use func(fd uint32)) error {
	return f.raw.Control(func(fd uintptr) { use(uint32(fd)) })
}

func (f *cmFile) Close() error { return f.f.Close() }

func writeCommand(fd int, in []byte) error {
	for {
		n, err := unix.Write(fd, in)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n != len(in):
			return io.ErrShortWrite
		default:
			return nil
		}
	}
}
