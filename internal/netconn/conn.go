package netconn

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Protocol is the protocol of a Conn. Its methods are called with the Conn's lock.
type Protocol interface {
	// Received handles a completed receive, and reports whether to post it again.
	Received(*verbs.WC) bool
	// Sent handles a completed send.
	Sent(wrid uint64)
	// Settle sends queued data and control messages as far as the send queue and the peer allow.
	Settle()
	// Over records why the connection has ended, unless a reason is known.
	Over(error)
	// Failed returns the reason why the connection has ended, or nil.
	Failed() error
	// Sends returns how many sends are outstanding. short means that something could not be sent before one completes.
	Sends() (outstanding int, short bool)
	// Read copies received data to b. It returns 0 if no data is available, and io.EOF after an orderly end.
	Read(b []byte) (int, error)
	// Write sends as much of b as is possible now. Of this call of Write, it has sent n bytes before.
	Write(b []byte, n uint64) (int, error)
	// Tick performs periodic work. It returns the time until the next call, or zero if no further call is needed.
	Tick() time.Duration
	// Probe posts a message that the peer's machine has to answer, unless it must not send yet.
	Probe()
	// End announces the end to the peer, behind all data. While the data has not been delivered it is called again,
	// at the latest at the time that it returns unless that is zero.
	End() time.Time
	// Delivered reports whether the peer's machine has all data, or takes none any more.
	Delivered() bool
	// Lost returns the reason why data may not have been delivered, or nil.
	Lost() error
}

// Conn is a net.Conn over one queue pair: the calls that wait, the deadlines and the end of a connection. The
// connection makes progress only during its calls, and at each tick. Of the calls that wait, one waits for events and
// wakes the others.
type Conn struct {
	RC       conn.Conn
	Receives Receives
	// Writing is held by the one call that writes.
	Reading, Writing       sync.Mutex
	Reader, Writer, Closer Side
	freeing                func()        // called once everything is freed; may be nil
	Trace                  *rdmacm.Trace // may be nil
	// Closed is called once the connection is closed and its calls end, before Close returns. It may be nil.
	Closed func()

	protocol      Protocol
	network       string
	local, remote netip.AddrPort
	recvCQ        *uverbs.CQ
	channel       *uverbs.CompChannel // has the events of both queues
	turn          wait.Turn           // held by the one call that waits for events
	freed         chan struct{}       // closed once the closed connection has freed everything
	err           error               // of free, set before freed is closed

	Mu      sync.Mutex // guards the fields below, and the protocol
	Sends   Sends
	Waiting bool // a call waits for events
	changes uint64
	linger  time.Duration // how long Close waits; negative if it does not
	broken  bool          // the connection has ended and has been disconnected
	closed  bool
	timer   *time.Timer // runs Tick; may be nil
	peer    liveness
	stats   rdmacm.ConnStats
	wcs     [batch]verbs.WC
}

// Side is the state that one kind of call waits with.
type Side struct {
	Deadline Deadline
	wake     chan struct{} // holds a token when something may have changed
}

// Init prepares the Conn. It must precede all other calls.
func (c *Conn) Init(network string, p Protocol) {
	c.network, c.protocol, c.linger, c.freed = network, p, -1, make(chan struct{})
	c.turn.Init(nil)
	for _, s := range []*Side{&c.Reader, &c.Writer, &c.Closer} {
		s.Deadline.Init()
		s.wake = make(chan struct{}, 1)
	}
}

// Begin starts the protocol on an established connection. A peer that does not answer for maxIdle is gone, unless
// maxIdle is negative. linger is the time that Close waits. If zero, Close does not wait; if negative, Close discards
// unsent data. start returns when to call Tick of the protocol first, or zero.
func (c *Conn) Begin(rc conn.Conn, maxIdle, linger time.Duration, start func() time.Duration) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.RC, c.local, c.remote = rc, rc.LocalAddr(), rc.RemoteAddr()
	c.Sends.CQ, c.recvCQ, c.channel = rc.SendCQ(), rc.RecvCQ(), rc.SendCQ().Channel()
	c.peer = newLiveness(rc, maxIdle)
	if linger != 0 {
		c.linger = max(linger, 0)
	}
	if first := c.peer.next(start()); first > 0 {
		c.timer = time.AfterFunc(first, c.Tick)
	}
}

// Tick handles completions that no call has handled, and performs the periodic work of the protocol.
func (c *Conn) Tick() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.IsOver() {
		return
	}
	c.Progress()
	if err := c.peer.check(c.protocol); err != nil {
		c.protocol.Over(c.Reset(err))
		c.Progress()
		return
	}
	next := c.peer.next(c.protocol.Tick())
	c.Tend() // if no call waits, the next tick detects a failure
	c.timer.Reset(next)
}

// IsOver reports whether the connection is closed or has ended. The caller holds the lock.
func (c *Conn) IsOver() bool { return c.closed || c.broken }

// LocalAddr returns this end's address.
func (c *Conn) LocalAddr() net.Addr { return Addr{c.network, c.local} }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return Addr{c.network, c.remote} }

// SetDeadline sets the deadline of the sides.
func (c *Conn) SetDeadline(t time.Time, sides ...*Side) error {
	if c.isClosed() {
		return c.Fail("set", net.ErrClosed)
	}
	for _, s := range sides {
		s.Deadline.Set(t)
	}
	return nil
}

func (c *Conn) isClosed() bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.closed
}

// Fail returns a *net.OpError of the connection.
func (c *Conn) Fail(op string, err error) error {
	return OpError(c.network, op, c.local, c.remote, err)
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c.Reading.Lock()
	defer c.Reading.Unlock()
	for {
		n, seen, err := c.TryRead(b)
		switch {
		case err == io.EOF:
			return 0, err
		case err != nil:
			return n, c.Fail("read", err)
		case n > 0:
			return n, nil
		}
		c.park(&c.Reader, seen)
	}
}

// TryRead is Read without waiting. seen is an argument of park.
func (c *Conn) TryRead(b []byte) (n int, seen uint64, err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if err = c.check(&c.Reader); err == nil {
		c.Progress()
		n, err = c.protocol.Read(b)
		c.stats.BytesReceived += uint64(n)
	}
	return n, c.Tend(), err
}

// Sender sends as much of b as is possible now. place is an offset or index, for senders that need one.
type Sender func(p Protocol, b []byte, place uint64) (int, error)

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) { return c.Send(b, 0, Protocol.Write) }

// Send sends all of b, the first byte to a place.
func (c *Conn) Send(b []byte, place uint64, send Sender) (int, error) {
	c.Writing.Lock()
	defer c.Writing.Unlock()
	for written := 0; ; {
		n, seen, err := c.TrySend(b[written:], place+uint64(written), send)
		written += n
		switch {
		case err != nil:
			return written, c.Fail("write", err)
		case written == len(b):
			return written, nil
		}
		if c.Trace != nil && c.Trace.NoRoom != nil {
			c.Trace.NoRoom(c.local, c.remote)
		}
		start := time.Now()
		c.park(&c.Writer, seen)
		c.waitedForRoom(start)
	}
}

// waitedForRoom counts a wait of a call that writes.
func (c *Conn) waitedForRoom(start time.Time) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.stats.RoomWaits++
	c.stats.RoomWait += time.Since(start)
}

// Stats returns the counts of the connection. registered returns the bytes of registered memory.
func (c *Conn) Stats(registered func() int) rdmacm.ConnStats {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	var s rdmacm.ConnStats
	s.Add(&c.stats)
	s.RegisteredBytes = uint64(registered())
	return s
}

// TrySend is Send without waiting. seen is an argument of park.
func (c *Conn) TrySend(b []byte, place uint64, send Sender) (n int, seen uint64, err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if err = c.check(&c.Writer); err == nil {
		c.Progress()
		n, err = send(c.protocol, b, place)
		c.stats.BytesSent += uint64(n)
	}
	return n, c.Tend(), err
}

// check returns an error if the connection is closed or the side's deadline has passed.
func (c *Conn) check(s *Side) error {
	switch {
	case c.closed:
		return net.ErrClosed
	case s.Deadline.IsOver():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// CloseWrite ends this side's data with end. A Write that waits ends at once.
func (c *Conn) CloseWrite(end func()) error {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.closed {
		return c.Fail("close", net.ErrClosed)
	}
	end()
	c.Watch()
	c.changed()
	c.Writer.Deadline.Interrupt() // for a Write that waits for events
	return nil
}

// SetLinger sets what Close does with data that the peer's machine has not taken yet, as net.TCPConn.SetLinger does.
func (c *Conn) SetLinger(sec int) error {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.closed {
		return c.Fail("set", net.ErrClosed)
	}
	c.linger = time.Duration(min(sec, math.MaxInt32)) * time.Second
	return nil
}

// Close ends the connection in both directions.
func (c *Conn) Close() error {
	linger, ok := c.beginClose()
	switch {
	case !ok:
		return c.Fail("close", net.ErrClosed)
	case linger < 0:
		return nil
	}
	freed, _ := c.Freed(context.Background())
	return freed
}

// Shutdown closes the connection, and waits until the peer's machine has all data and everything is freed.
func (c *Conn) Shutdown(ctx context.Context) error {
	c.beginClose()
	freed, canceled := c.Freed(ctx)
	if canceled != nil {
		return c.Fail("shut down", canceled)
	}
	return freed
}

// Freed waits until everything is freed, and returns the error of that. If ctx ends first, it returns ctx.Err().
func (c *Conn) Freed(ctx context.Context) (freed, canceled error) {
	select {
	case <-c.freed:
		return c.err, nil
	default:
	}
	select {
	case <-c.freed:
		return c.err, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// closeTimeout bounds how long a closed connection waits in the background until the peer's machine has the data.
const closeTimeout = 10 * time.Second

// beginClose ends all calls that are under way, and announces the end. It reports whether the connection was open.
func (c *Conn) beginClose() (linger time.Duration, ok bool) {
	c.Mu.Lock()
	if c.closed {
		c.Mu.Unlock()
		return 0, false
	}
	c.closed = true
	linger = c.linger
	if c.timer != nil {
		c.timer.Stop()
	}
	done := linger == 0
	if !done {
		done, _, _ = c.deliver()
	}
	c.Mu.Unlock()
	c.Reader.Deadline.Close()
	c.Writer.Deadline.Close()
	if c.Closed != nil {
		c.Closed()
	}
	if done {
		c.free(nil)
		return linger, true
	}
	limit := closeTimeout
	if linger > 0 {
		limit = linger
	}
	go func() { c.free(c.await(time.Now().Add(limit))) }()
	return linger, true
}

// deliver reports whether the peer's machine has the data, and announces the end. The caller holds the lock.
func (c *Conn) deliver() (done bool, seen uint64, next time.Time) {
	c.Progress()
	next = c.protocol.End()
	c.Progress()
	return c.protocol.Delivered(), c.changes, next
}

// await waits until the peer's machine has the data.
func (c *Conn) await(end time.Time) error {
	defer c.Closer.Deadline.Close()
	for {
		c.Mu.Lock()
		done, seen, next := c.deliver()
		c.Mu.Unlock()
		switch {
		case done:
			return nil
		case time.Until(end) <= 0:
			return os.ErrDeadlineExceeded
		case next.IsZero() || end.Before(next):
			next = end
		}
		c.Closer.Deadline.Set(next)
		c.park(&c.Closer, seen)
	}
}

// free frees everything, once the last call has returned.
func (c *Conn) free(err error) {
	c.Reading.Lock()
	defer c.Reading.Unlock()
	c.Writing.Lock()
	defer c.Writing.Unlock()
	// Return a single error, because Timeout of a *net.OpError does not examine joined errors.
	if err := cmp.Or(err, c.lost(), c.RC.Close()); err != nil {
		c.err = c.Fail("close", err)
	}
	close(c.freed)
	if c.freeing != nil {
		c.freeing()
	}
}

func (c *Conn) lost() error {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.linger == 0 {
		return nil
	}
	return c.protocol.Lost()
}

// Progress polls both queues and acts on the completions. The caller holds the lock.
func (c *Conn) Progress() {
	ended := c.hasEnded() // checked first, so that the queues hold everything from before the end
	n := c.Receive() + c.reclaim()
	if ended && c.protocol.Failed() == nil {
		for c.Receive()+c.reclaim() > 0 { // empties the queues
		}
		c.protocol.Over(c.Reset(nil))
	}
	c.protocol.Settle()
	if c.protocol.Failed() != nil && !c.broken {
		c.broken = true
		n++
		_ = c.RC.Disconnect() // fails if the connection has ended already
	}
	if n > 0 {
		c.changed()
	}
}

func (c *Conn) hasEnded() bool {
	select {
	case <-c.RC.Done():
		return true
	default:
		return false
	}
}

// Receive polls what has arrived and posts the receives again. It returns the number of completions, which is about the
// number of receives at most, because a peer that sends faster than this end polls must not make it hold the lock
// forever. Callers poll again if there were any.
func (c *Conn) Receive() (total int) {
	for total < c.Receives.Count {
		n, err := c.recvCQ.Poll(c.wcs[:])
		if err != nil {
			c.protocol.Over(c.Reset(err))
			return total
		}
		again := 0
		for i := range c.wcs[:n] {
			// A receive that failed was flushed: RC reports the end.
			wc := &c.wcs[i]
			if wc.Status != verbs.StatusSuccess {
				c.stats.Fail(wc.Status)
				continue
			}
			c.peer.heard = true
			c.stats.MessagesReceived++
			if c.Received(wc) {
				c.Receives.fill(again, wc.WRID)
				again++
			}
		}
		if err := c.Receives.post(again); err != nil {
			c.protocol.Over(c.Reset(err))
		}
		if total += n; n < len(c.wcs) {
			break
		}
	}
	return total
}

// Received handles a completed receive, and reports whether to post it again. The completion may be in memory that the
// kernel writes, as on rxe, so its WRID is checked.
func (c *Conn) Received(wc *verbs.WC) bool {
	if wc.WRID >= uint64(c.Receives.Count) {
		c.protocol.Over(c.Reset(fmt.Errorf("the device completed receive %d of %d", wc.WRID, c.Receives.Count)))
		return false
	}
	return c.protocol.Received(wc)
}

// reclaim polls sends that have completed. It returns the number of completions.
func (c *Conn) reclaim() (total int) {
	for {
		n, err := c.Sends.CQ.Poll(c.wcs[:])
		if err != nil {
			c.protocol.Over(c.Reset(err))
			return total
		}
		var failed error
		for i := range c.wcs[:n] {
			if err := c.wcs[i].Err(); err == nil {
				c.peer.sent(&c.wcs[i])
				c.stats.MessagesSent++
			} else {
				c.stats.Fail(c.wcs[i].Status)
				failed = cmp.Or(failed, err)
			}
			c.protocol.Sent(c.wcs[i].WRID)
		}
		if n > 0 {
			c.Sends.Polled()
		}
		left := n == len(c.wcs)
		if total += n; failed != nil {
			total += c.Receive() // what the peer sent before the failure, such as its end
			c.protocol.Over(c.Reset(failed))
		}
		if !left {
			return total
		}
	}
}

// Reset returns the error of a connection that broke.
func (c *Conn) Reset(cause error) error { return Reset(c.RC, cause) }

// Reset returns the error of a connection that broke.
func Reset(rc conn.Conn, cause error) error {
	return fmt.Errorf("%w: %w", syscall.ECONNRESET, rc.Explain(cause))
}

// changed wakes all calls that wait. The caller holds the lock.
func (c *Conn) changed() {
	c.changes++
	for _, s := range [...]*Side{&c.Reader, &c.Writer, &c.Closer} {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// park waits until c.changes may differ from seen, or the deadline of the side has passed.
func (c *Conn) park(s *Side, seen uint64) {
	expiry := s.Deadline.Expiry()
	if c.turn.Acquire(expiry, s.wake) != nil {
		return
	}
	defer c.turn.Release()
	var rang *uverbs.CQ
	var failed error
	if !c.hasChanged(seen) {
		rang, failed = c.channel.Get(expiry) // the caller finds out what happened
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.Waiting = false
	if failed != nil && expiry.Err() == nil { // the device was removed
		c.protocol.Over(c.Reset(failed))
	}
	if rang != nil {
		c.stats.Wakeups++
		c.Sends.Rang(rang)
	}
}

// hasChanged arms the queues for a call that is about to wait for events, and then reports whether c.changes differs
// from seen.
func (c *Conn) hasChanged(seen uint64) bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.changes != seen {
		return true
	}
	c.Waiting = true
	if err := c.recvCQ.Arm(false); err != nil {
		c.protocol.Over(c.Reset(err))
	}
	c.Watch()
	return c.changes != seen
}

// Watch arms the send queue if sends are outstanding, and handles what has completed before. The caller holds the lock.
func (c *Conn) Watch() {
	outstanding, short := c.protocol.Sends()
	c.Sends.Watch(outstanding > 0, short || c.closed)
	c.Progress()
}

// Tend calls Watch if a call waits for events, so that the caller's sends wake it. It returns the number of changes
// before that, because the caller has not seen later ones. The caller holds the lock.
func (c *Conn) Tend() (seen uint64) {
	if seen = c.changes; c.Waiting {
		c.Watch()
	}
	return seen
}

// Format prints the addresses and the state, never memory.
func (c *Conn) Format(f fmt.State, _ rune) {
	state := "open"
	if c.isClosed() {
		state = "closed"
	}
	fmt.Fprintf(f, "%s connection %v to %v, %s", c.network, c.local, c.remote, state)
}
