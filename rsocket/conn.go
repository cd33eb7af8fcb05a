package rsocket

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Conn is a connection. It is a [net.Conn], and its methods may be called concurrently.
//
// It has no goroutine until Close, and makes progress only during calls of its methods. If several calls
// wait, one of them polls the completions for all.
type Conn struct {
	rc            *rdmacm.Conn
	local, remote netip.AddrPort
	recvCQ        *uverbs.CQ
	calls         netconn.Calls
	mappings      mappings

	mu     sync.Mutex // guards the fields below, and some of calls
	verbs  transport
	stream *stream
	sends  netconn.Sends
	broken bool // the connection has failed
	closed bool
	alive  *time.Timer // posts keep-alives
	begun  time.Time
	wcs    [recvBatch]verbs.WC
}

func newConn() *Conn {
	c := new(Conn)
	c.calls.Init(&c.mu, netconn.Queues{Arm: c.arm, Watch: c.watch, Rang: c.sends.Rang})
	return c
}

// begin starts the protocol on an established connection. The side that dialled sends first. Over iWARP it
// must, and the other side waits for that.
func (c *Conn) begin(rc *rdmacm.Conn, peer hello, cfg *Config, dialled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rc, c.local, c.remote = rc, rc.LocalAddr(), rc.RemoteAddr()
	c.sends.CQ, c.recvCQ, c.calls.Channel = rc.SendCQ(), rc.RecvCQ(), rc.SendCQ().Channel()
	c.verbs.order = peer.order()
	c.mappings.most = peer.mappings
	rc.Own(&c.mappings)
	c.stream = newStream(&c.verbs, c.verbs.memory(cfg), peer, cfg.SendQueue, uint16(cfg.RecvQueue), c.verbs.iwarp)
	c.stream.silent = c.verbs.iwarp && !dialled
	c.stream.settle()
	c.begun = time.Now()
	if period := cfg.KeepAlive; period > 0 {
		c.alive = time.AfterFunc(period, func() { c.keepAlive(period) })
	}
}

// mpaTimeout is how long a kernel waits for the answer to an iWARP connect request. The side that accepted
// must not send while that answer may still be under way. If the peer has sent nothing by then, it may be
// gone. A keep-alive finds that out.
const mpaTimeout = 10 * time.Second

// keepAlive handles completions that no call has handled, and sends a keep-alive. It then restarts the timer.
func (c *Conn) keepAlive(period time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.broken {
		return
	}
	c.progress()
	c.stream.overdue = time.Since(c.begun) >= mpaTimeout
	c.stream.keepAlive()
	c.calls.Tend() // if no call waits, the next keep-alive detects a failure
	c.alive.Reset(period)
}

// LocalAddr returns this end's address, an [Addr].
func (c *Conn) LocalAddr() net.Addr { return Addr{c.local} }

// RemoteAddr returns the peer's address, an [Addr].
func (c *Conn) RemoteAddr() net.Addr { return Addr{c.remote} }

// SetDeadline sets the deadlines of SetReadDeadline and SetWriteDeadline.
func (c *Conn) SetDeadline(t time.Time) error {
	err := c.SetReadDeadline(t)
	if err == nil {
		err = c.SetWriteDeadline(t)
	}
	return err
}

// SetReadDeadline sets the deadline of Read, including calls that are under way. They may notice it up
// to 500 µs late.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.calls.Reader, t) }

// SetWriteDeadline sets the deadline of Write, WriteAt and Map, including calls that are under way.
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

// progress polls both queues and acts on the completions. The caller holds the lock.
func (c *Conn) progress() {
	ended := c.hasEnded() // checked before the queues are emptied, because they hold the messages from before the end
	n := c.receive()
	n += c.reclaim()
	if ended && n == 0 {
		c.stream.fail(c.verbs.reset(nil))
	}
	c.stream.settle()
	if c.stream.failed != nil && !c.broken {
		c.broken = true
		n++
		_ = c.rc.Disconnect() // the connection may have ended already
	}
	if n > 0 {
		c.calls.Changed()
	}
}

func (c *Conn) hasEnded() bool {
	select {
	case <-c.rc.Done():
		return true
	default:
		return false
	}
}

// receive polls the words that have arrived and posts the receives again. It returns the number of
// completions, which is about the number of receives at most, because a peer that sends words faster
// than they are polled must not make it hold the lock forever. Callers poll again if there were any.
func (c *Conn) receive() (total int) {
	for total < c.verbs.recvs {
		n, err := c.recvCQ.Poll(c.wcs[:])
		if err != nil {
			c.stream.fail(c.verbs.reset(err))
			return total
		}
		again := 0
		for i := range c.wcs[:n] {
			wc := &c.wcs[i]
			if wc.Status != verbs.StatusSuccess {
				continue // the connection has ended; the rdmacm.Conn reports that
			}
			w, err := c.verbs.received(wc)
			if err != nil {
				c.stream.violate(err)
				continue
			}
			c.stream.arrived(w)
			c.verbs.fill(again, wc.WRID)
			again++
		}
		if err := c.verbs.postRecvs(again); err != nil {
			c.stream.fail(c.verbs.reset(err))
		}
		if total += n; n < len(c.wcs) {
			break
		}
	}
	return total
}

// reclaim returns the slots and buffers of completed messages. It returns the number of completions.
func (c *Conn) reclaim() (total int) {
	for {
		n, err := c.sends.CQ.Poll(c.wcs[:])
		if err != nil {
			c.stream.fail(c.verbs.reset(err))
			return total
		}
		var failed error
		for i := range c.wcs[:n] {
			wc := &c.wcs[i]
			if err := wc.Err(); err != nil && failed == nil {
				failed = err
			}
			if wc.WRID != 0 {
				c.stream.completed(refund(wc.WRID))
			}
		}
		if n > 0 {
			c.sends.Polled()
		}
		left := n == len(c.wcs)
		if total += n; failed != nil {
			// The peer may have announced its end before.
			total += c.receive()
			c.stream.fail(c.verbs.reset(failed))
		}
		if !left {
			return total
		}
	}
}
