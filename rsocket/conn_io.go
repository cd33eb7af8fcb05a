package rsocket

import (
	"io"
	"net"
	"os"

	"github.com/goverbs/goverbs/internal/netconn"
)

// Read reads data that has arrived, and waits if there is none. After the end of the peer's data it returns
// io.EOF. If the connection broke, it returns all data that had arrived, and then an error that matches
// syscall.ECONNRESET.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c.calls.Reading.Lock()
	defer c.calls.Reading.Unlock()
	for {
		n, seen, err := c.tryRead(b)
		switch {
		case err == io.EOF:
			return 0, err
		case err != nil:
			return n, c.fail("read", err)
		case n > 0:
			return n, nil
		}
		c.calls.Park(&c.calls.Reader, seen)
	}
}

func (c *Conn) tryRead(b []byte) (n int, seen uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err = c.checkOpen(&c.calls.Reader); err == nil {
		c.progress()
		n, err = c.stream.read(b)
	}
	return n, c.calls.Tend(), err
}

// Write writes b. It returns once all of it is sent or in the send buffer, even if the peer's program has
// not read it.
//
// The first Write after the peer has closed its end succeeds and its data is discarded, as over TCP. A
// program that writes before it reads can therefore still read the peer's last data. Later Writes return
// an error that matches syscall.EPIPE.
func (c *Conn) Write(b []byte) (int, error) {
	return c.sendAll(b, 0, func(s *stream, b []byte, written uint64) (int, error) {
		if written == 0 && s.discard() {
			return len(b), nil
		}
		return s.write(b)
	})
}

// sender sends as much of b as possible now. place is an offset or index, for senders that need one.
type sender func(s *stream, b []byte, place uint64) (int, error)

// sendAll sends all of b.
func (c *Conn) sendAll(b []byte, place uint64, send sender) (int, error) {
	c.calls.Writing.Lock()
	defer c.calls.Writing.Unlock()
	for written := 0; ; {
		n, seen, err := c.trySend(b[written:], place+uint64(written), send)
		written += n
		switch {
		case err != nil:
			return written, c.fail("write", err)
		case written == len(b):
			return written, nil
		}
		c.calls.Park(&c.calls.Writer, seen)
	}
}

func (c *Conn) trySend(b []byte, place uint64, send sender) (n int, seen uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err = c.checkOpen(&c.calls.Writer); err == nil {
		c.progress()
		n, err = send(c.stream, b, place)
	}
	return n, c.calls.Tend(), err
}

// checkOpen returns an error if the connection is closed or the side's deadline has passed.
func (c *Conn) checkOpen(s *netconn.Side) error {
	switch {
	case c.closed:
		return net.ErrClosed
	case s.Deadline.IsOver():
		return os.ErrDeadlineExceeded
	}
	return nil
}
