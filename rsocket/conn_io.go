package rsocket

import (
	"io"
	"net"
	"os"
)

// Read returns what has arrived, and waits if that is nothing. After the peer's end of
// data it returns io.EOF; a connection that broke gives an error that matches
// syscall.ECONNRESET, after all that had arrived.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
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
		c.park(&c.reader, seen)
	}
}

func (c *Conn) tryRead(b []byte) (n int, seen uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err = c.mayGoOn(&c.reader); err == nil {
		c.progress()
		n, err = c.stream.read(b)
	}
	return n, c.tend(), err
}

// Write returns when all of b is sent or in the send buffer. The peer's program need not
// have read it.
//
// The first Write after the peer has closed its end succeeds, and its data is discarded, as
// over TCP; so a program that writes before it reads gets what the peer sent last. Later ones
// fail with an error that matches syscall.EPIPE.
func (c *Conn) Write(b []byte) (int, error) {
	return c.sendAll(b, 0, func(s *stream, b []byte, written uint64) (int, error) {
		if written == 0 && s.discard() {
			return len(b), nil
		}
		return s.write(b)
	})
}

// sender sends as much of b as may be sent now, some of them to a place.
type sender func(s *stream, b []byte, place uint64) (int, error)

// sendAll sends all of b.
func (c *Conn) sendAll(b []byte, place uint64, send sender) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for written := 0; ; {
		n, seen, err := c.trySend(b[written:], place+uint64(written), send)
		written += n
		switch {
		case err != nil:
			return written, c.fail("write", err)
		case written == len(b):
			return written, nil
		}
		c.park(&c.writer, seen)
	}
}

func (c *Conn) trySend(b []byte, place uint64, send sender) (n int, seen uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err = c.mayGoOn(&c.writer); err == nil {
		c.progress()
		n, err = send(c.stream, b, place)
	}
	return n, c.tend(), err
}

// mayGoOn tells a call whose time is over, before anything else does.
func (c *Conn) mayGoOn(s *side) error {
	switch {
	case c.closed:
		return net.ErrClosed
	case s.deadline.isOver():
		return os.ErrDeadlineExceeded
	}
	return nil
}
