package rsocket

import (
	"net"
	"os"
	"time"
)

// closeTimeout bounds how long Close waits for the peer's machine to take what was
// written.
const closeTimeout = 10 * time.Second

// CloseWrite tells the peer that no more data comes; its Read then returns io.EOF. Read
// goes on as before. Closing twice does nothing.
//
// C: rshutdown with SHUT_WR
func (c *Conn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.fail("close", net.ErrClosed)
	}
	c.stream.end(false)
	c.watch()
	return nil
}

// Close ends the connection in both directions. Calls that wait return an error that
// matches net.ErrClosed. The peer gets all that was written, also if it reads that
// later. Close waits until it has arrived, whatever the write deadline, and gives up
// after 10 seconds with an error that is a timeout. Closing twice does nothing.
//
// Over iWARP a send has completed once this machine's TCP has taken it. Close waits for
// that alone, as rclose does, and what is lost behind it nobody tells. A program that has
// to know has its peer answer before it closes.
//
// C: rclose
func (c *Conn) Close() error { return c.close() }

func (c *Conn) finish() error {
	c.mu.Lock()
	c.closed = true
	if c.alive != nil {
		c.alive.Stop()
	}
	c.mu.Unlock()
	c.reader.deadline.close()
	c.writer.deadline.close()
	// From here on nobody else uses the connection.
	c.reading.Lock()
	defer c.reading.Unlock()
	c.writing.Lock()
	defer c.writing.Unlock()
	err := c.deliver()
	if closeErr := c.rc.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return c.fail("close", err)
	}
	return nil
}

// deliver says goodbye and waits until the peer's machine has all.
func (c *Conn) deliver() error {
	c.closer.deadline.set(time.Now().Add(closeTimeout))
	defer c.closer.deadline.close()
	for first := true; ; first = false {
		delivered, seen := c.tryDeliver(first)
		if delivered {
			return nil
		}
		if c.closer.deadline.isOver() {
			return os.ErrDeadlineExceeded
		}
		c.park(&c.closer, seen)
	}
}

func (c *Conn) tryDeliver(first bool) (delivered bool, seen uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.progress(); first {
		c.stream.end(true)
		c.progress()
	}
	return c.stream.delivered(), c.changes
}
