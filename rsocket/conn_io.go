package rsocket

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
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

// deadline is the end of the time that one kind of call has. Calls wait with the moment of
// its expiry, so none makes a context or a timer of its own.
type deadline struct {
	mu     sync.Mutex // guards what follows
	at     time.Time
	timer  *time.Timer
	expiry *moment
	closed bool // for good
}

func (d *deadline) init() { d.expiry = newMoment() }

// moment is when the deadline expires. A later deadline has another moment once this one
// has come.
func (d *deadline) moment() *moment {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expiry
}

func (d *deadline) isOver() bool { return d.moment().Err() != nil }

// set moves the deadline; the zero time is none.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	// The wall clock may be set back before a time that has no monotonic reading, and the
	// timer would then find it still to come.
	left := time.Until(t)
	if d.at = t; !t.IsZero() {
		d.at = time.Now().Add(left)
	}
	switch {
	case t.IsZero():
		d.renew()
	case left <= 0:
		d.expiry.come()
	case d.timer == nil:
		d.renew()
		d.timer = time.AfterFunc(left, d.expired)
	default:
		d.renew()
		d.timer.Reset(left)
	}
}

// expired is what the timer calls. A timer that was stopped too late finds another
// deadline.
func (d *deadline) expired() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && time.Until(d.at) <= 0 {
		d.expiry.come()
	}
}

// interrupt ends the waits for this deadline, which is still to come.
func (d *deadline) interrupt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if waits := d.expiry; waits.Err() == nil {
		d.expiry = newMoment()
		waits.come()
	}
}

func (d *deadline) renew() {
	if d.expiry.Err() != nil {
		d.expiry = newMoment()
	}
}

// close lets no call wait from now on.
func (d *deadline) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
	}
	d.expiry.come()
}
