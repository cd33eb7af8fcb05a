package perf

import (
	"bufio"
	"net"
	"time"

	"github.com/goverbs/goverbs/internal/farewell"
)

// watchedConn is a connection on which one can wait for the peer to say
// something, without taking it.
type watchedConn struct {
	net.Conn
	in *bufio.Reader
}

func (c *watchedConn) Read(b []byte) (int, error) { return c.in.Read(b) }

// Leave sends the peer the reason why this end fails. The connection can only be
// closed after that.
func (h *Hand) Leave(why error) { farewell.Say(h.conn.Conn, why) }

// watch calls heard when the peer sends a message (nil), fails or leaves, until the
// returned function is called.
func (h *Hand) watch(heard func(error)) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		h.conn.listen(func(err error) {
			select {
			case <-over:
			default:
				heard(err)
			}
		})
	}()
	return func() {
		close(over)
		_ = h.conn.SetReadDeadline(time.Unix(1, 0))
		<-ended
		_ = h.conn.SetReadDeadline(time.Time{})
	}
}

// listen reads until it finds a farewell or the stream ends. A peer that closes the
// connection after a message has not failed.
func (c *watchedConn) listen(heard func(error)) {
	for n := 1; ; n = c.in.Buffered() + 1 {
		said, err := c.in.Peek(n)
		why := farewell.Find(said)
		switch {
		case why != nil:
			heard(why)
			return
		case err != nil && n > 1:
			return
		case n == 1:
			heard(err)
		}
		if err != nil {
			return
		}
	}
}
