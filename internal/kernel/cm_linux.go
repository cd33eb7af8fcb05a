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

// cmFile is the kernel's file. It has no read(): an event is fetched by a
// write, which is why os.File's own Read and Write don't serve.
type cmFile struct {
	f   *os.File
	raw syscall.RawConn
}

func openCM() (CM, error) {
	f, err := os.OpenFile(CMPath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	// A file outside the netpoller would block a thread for each waiter.
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		f.Close()
		return nil, fmt.Errorf("the file cannot be polled, is it the rdma_cm device node? %w", err)
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
	// Control takes no lock: a slow CONNECT must not hold up other IDs.
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
			return err
		}
		err := f.raw.Read(c.issueUntilReady)
		switch {
		case err == nil:
			return c.err
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
		// The deadline is our own context's, which is looked at after this, or one that an
		// earlier context left behind.
		if err := f.f.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	}
}

// call is a command on its way to the descriptor. It is used again, because the
// functions that take it there are garbage each if they are made for each command.
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
