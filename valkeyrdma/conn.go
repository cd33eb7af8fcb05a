package valkeyrdma

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Conn is a connection. It is a [net.Conn], and its methods may be called concurrently.
type Conn struct {
	rc            *rdmacm.Conn
	local, remote netip.AddrPort
	recvCQ        *uverbs.CQ
	calls         netconn.Calls

	mu     sync.Mutex // guards the fields below, and some of calls
	verbs  transport
	stream stream
	sends  netconn.Sends
	broken bool // whether the connection is over and has been disconnected
	closed bool
	timer  *time.Timer // runs tick
	// lookAgain is the time until tick runs next if the peer must send first and has not sent yet.
	lookAgain time.Duration
	holding   *time.Timer // runs release while data is held back; nil before the first time
	held      bool        // whether holding has been started
	wcs       [recvBatch]verbs.WC
}

func newConn() *Conn {
	c := new(Conn)
	c.calls.Init(&c.mu, netconn.Queues{Arm: c.arm, Watch: c.watch, Rang: c.sends.Rang})
	return c
}

// begin starts the protocol on an established connection. Over iWARP the side that dialled must send first. If begin fails,
// the caller closes rc.
func (c *Conn) begin(rc *rdmacm.Conn, cfg *Config, dialled bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.verbs.buffers(cfg)
	if err != nil {
		return err
	}
	c.rc, c.local, c.remote = rc, rc.LocalAddr(), rc.RemoteAddr()
	c.sends.CQ, c.recvCQ, c.calls.Channel = rc.SendCQ(), rc.RecvCQ(), rc.SendCQ().Channel()
	c.stream = stream{link: &c.verbs, own: m, accepted: !dialled,
		silent: !dialled && rc.Device().Info().NodeType == verbs.NodeRNIC}
	c.stream.settle()
	period := cfg.KeepAlive
	if period < 0 {
		period = idleTime
	}
	first := period
	if c.stream.silent {
		first, c.lookAgain = silentTime, 2*silentTime
	}
	c.timer = time.AfterFunc(first, func() { c.tick(period, cfg.KeepAlive > 0) })
	return nil
}

// silentTime is the time after which a connection that must not send first polls for a message of the
// peer. The time doubles after each poll.
const silentTime = time.Millisecond

// idleTime is the interval at which an idle connection without keep-alives reposts its receives. Valkey's server sends a
// control message every 3 s, so all receives would be used up after 51 minutes.
const idleTime = time.Minute

// tick handles completions that no call has handled, and sends a keep-alive. It then restarts the timer.
func (c *Conn) tick(period time.Duration, alive bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.broken {
		return
	}
	c.progress()
	if alive {
		c.stream.keepAlive()
	}
	c.calls.Tend()
	next := min(period, idleTime)
	if c.stream.silent {
		next = min(next, c.lookAgain)
		c.lookAgain = min(2*c.lookAgain, time.Second)
	}
	c.timer.Reset(next)
}

// LocalAddr returns this end's address, an [Addr].
func (c *Conn) LocalAddr() net.Addr { return Addr{c.local} }

// RemoteAddr returns the peer's address, an [Addr].
func (c *Conn) RemoteAddr() net.Addr { return Addr{c.remote} }

// SetDeadline sets the deadlines of Read and Write, as SetReadDeadline and SetWriteDeadline do.
func (c *Conn) SetDeadline(t time.Time) error {
	err := c.SetReadDeadline(t)
	if err == nil {
		err = c.SetWriteDeadline(t)
	}
	return err
}

// SetReadDeadline sets the deadline of Read. It applies to blocked calls too, which may notice it up to
// 500 µs late.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.calls.Reader, t) }

// SetWriteDeadline sets the deadline of Write. It applies to blocked calls too.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.calls.Writer, t) }

func (c *Conn) setDeadline(s *netconn.Side, t time.Time) error {
	if c.isClosed() {
		return c.fail("set", net.ErrClosed)
	}
	s.Deadline.Set(t)
	return nil
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *Conn) fail(op string, err error) error { return opError(op, c.local, c.remote, err) }

// Read reads data that has arrived, and waits if there is none. After the peer has ended the connection, Read returns
// the remaining data, and then io.EOF. If the connection broke, the error matches syscall.ECONNRESET. If the peer
// violated the protocol, it matches [ErrProtocol].
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
		n, err = c.stream.take(b)
	}
	return n, c.calls.Tend(), err
}

// Write writes b. It returns once all of b is sent or in the send buffer. The peer's program may read it
// later.
//
// The first Write after the peer has ended the connection succeeds, and its data is discarded, as over TCP.
// So a program that writes before it reads can still read the peer's last data. Later Writes return an
// error that matches syscall.EPIPE.
func (c *Conn) Write(b []byte) (int, error) {
	c.calls.Writing.Lock()
	defer c.calls.Writing.Unlock()
	for written := 0; ; {
		n, seen, err := c.tryWrite(b[written:], written == 0)
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

func (c *Conn) tryWrite(b []byte, first bool) (n int, seen uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err = c.checkOpen(&c.calls.Writer); err == nil {
		c.progress()
		if first && c.stream.discard() {
			return len(b), 0, nil
		}
		n, err = c.stream.write(b)
	}
	seen = c.calls.Tend()
	c.hold()
	return n, seen, err
}

// hold starts the timer for data that is held back.
func (c *Conn) hold() {
	switch {
	case c.held || c.stream.held == 0:
		return
	case c.holding == nil:
		c.holding = time.AfterFunc(holdTime, c.release)
	default:
		c.holding.Reset(holdTime)
	}
	c.held = true
}

// release sends data that was held back. If the send queue is full, it tries again later.
func (c *Conn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	if c.closed || c.broken {
		return
	}
	c.progress()
	c.stream.due = true
	c.stream.release()
	c.calls.Tend()
	c.hold()
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

// progress polls both queues and handles the completions. The caller holds the lock.
func (c *Conn) progress() {
	ended := c.hasEnded() // read first, so the queues hold all messages from before the end
	n := c.receive()
	n += c.reclaim()
	if ended && c.stream.failed == nil {
		for c.receive()+c.reclaim() > 0 { // drain the queues
		}
		c.over(nil)
		n++
	}
	c.stream.settle()
	if c.stream.failed != nil && !c.broken {
		c.broken = true
		n++
		_ = c.rc.Disconnect() // fails if the connection has already ended
	}
	if n > 0 {
		c.calls.Changed()
	}
}

// over ends the stream after the connection has ended. An orderly end is a disconnect by the peer.
func (c *Conn) over(cause error) {
	err := c.verbs.reset(cause)
	if errors.Is(err, rdmacm.ErrDisconnected) {
		c.stream.end(err)
		return
	}
	c.stream.fail(err)
}

func (c *Conn) hasEnded() bool {
	select {
	case <-c.rc.Done():
		return true
	default:
		return false
	}
}

// receive polls received messages and reposts their receives. It returns the number of completions. It stops after about
// as many as there are receives, so a peer that sends faster than this end polls can't make it keep the lock. Callers
// poll again if there were any.
func (c *Conn) receive() (total int) {
	for total < recvs {
		n, err := c.recvCQ.Poll(c.wcs[:])
		if err != nil {
			c.over(err)
			return total
		}
		again := 0
		for i := range c.wcs[:n] {
			wc := &c.wcs[i]
			if wc.Status != verbs.StatusSuccess {
				continue // flushed; the rdmacm.Conn reports the end
			}
			c.verbs.arrived(wc, &c.stream)
			c.verbs.fill(again, wc.WRID)
			again++
		}
		if err := c.verbs.postRecvs(again); err != nil {
			c.over(err)
		}
		if total += n; n < len(c.wcs) {
			break
		}
	}
	return total
}

// reclaim frees the slots and buffers of completed messages. It returns the number of completions.
func (c *Conn) reclaim() (total int) {
	for {
		n, err := c.sends.CQ.Poll(c.wcs[:])
		if err != nil {
			c.over(err)
			return total
		}
		var failed error
		for i := range c.wcs[:n] {
			if err := c.wcs[i].Err(); err != nil && failed == nil {
				failed = err
			}
			c.stream.completed(mark(c.wcs[i].WRID))
		}
		if n > 0 {
			c.sends.Polled()
		}
		left := n == len(c.wcs)
		if total += n; failed != nil {
			// The peer may have sent data before the failure.
			total += c.receive()
			c.over(failed)
		}
		if !left {
			return total
		}
	}
}

// watch arms the send queue if sends are outstanding, and handles sends that completed before.
func (c *Conn) watch() {
	c.sends.Watch(c.stream.outstanding() > 0, c.stream.short || c.closed)
	c.progress()
}

// arm arms the receive queue.
func (c *Conn) arm() {
	if err := c.recvCQ.Arm(false); err != nil {
		c.over(err)
	}
}
