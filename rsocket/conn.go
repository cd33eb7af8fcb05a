package rsocket

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Conn is a connection. It is a [net.Conn], and its methods may be called concurrently.
//
// It has no goroutine until Close, and makes progress during its calls. Read returns credits
// to the peer. Of the calls that wait, one takes the completions for all.
type Conn struct {
	rc             *rdmacm.Conn
	local, remote  netip.AddrPort
	sendCQ, recvCQ *uverbs.CQ
	channel        *uverbs.CompChannel // of both

	reading, writing       sync.Mutex // held by the one Read, and the one Write, WriteAt or Map
	reader, writer, closer side
	turn                   wait.Turn // held by the one call that waits for events
	mappings               mappings
	freed                  chan struct{} // closed when the closed connection holds nothing any more
	closeErr               error         // set before freed is closed

	mu      sync.Mutex // guards what follows
	verbs   transport
	stream  *stream
	changes uint64 // how often something completed or arrived
	waiting bool   // somebody waits for events
	armed   bool   // sendCQ is
	torn    bool   // the connection is of no more use
	closed  bool
	linger  int         // see SetLinger
	alive   *time.Timer // posts keep-alives
	begun   time.Time
	wcs     [recvBatch]verbs.WC
}

// side is what one kind of call waits with.
type side struct {
	deadline deadline
	wake     chan struct{} // holds a token when something may have changed
}

func (s *side) init() {
	s.deadline.init()
	s.wake = make(chan struct{}, 1)
}

func newConn() *Conn {
	c := &Conn{freed: make(chan struct{}), linger: -1}
	c.turn.Init(nil)
	for _, s := range []*side{&c.reader, &c.writer, &c.closer} {
		s.init()
	}
	return c
}

// begin starts the protocol on a connection that stands. The side that dialled speaks
// first: over iWARP it has to, and the other side waits for that.
func (c *Conn) begin(rc *rdmacm.Conn, peer hello, z *Sizes, dialled bool, keepAlive time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rc, c.local, c.remote = rc, rc.LocalAddr(), rc.RemoteAddr()
	c.sendCQ, c.recvCQ, c.channel = rc.SendCQ(), rc.RecvCQ(), rc.SendCQ().Channel()
	c.verbs.order = peer.order()
	c.mappings.most = peer.mappings
	rc.Own(&c.mappings)
	c.stream = newStream(&c.verbs, c.verbs.memory(z), peer, z.SendQueue, uint16(z.RecvQueue), c.verbs.iwarp)
	c.stream.silent = c.verbs.iwarp && !dialled
	c.stream.settle()
	c.begun = time.Now()
	if keepAlive > 0 {
		c.alive = time.AfterFunc(keepAlive, func() { c.keepAlive(keepAlive) })
	}
}

// mpaTimeout is how long a kernel waits for the answer to an iWARP connect request. The
// side that accepted may send nothing while that answer may still be on its way. A peer
// that has said nothing by then may have vanished, of which a keep-alive tells.
const mpaTimeout = 10 * time.Second

func (c *Conn) keepAlive(period time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.torn {
		return
	}
	c.stream.overdue = time.Since(c.begun) >= mpaTimeout
	c.stream.keepAlive()
	c.watch()
	c.alive.Reset(period)
}

// LocalAddr returns this end's address, an [Addr].
func (c *Conn) LocalAddr() net.Addr { return Addr{c.local} }

// RemoteAddr returns the peer's address, an [Addr].
func (c *Conn) RemoteAddr() net.Addr { return Addr{c.remote} }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	err := c.SetReadDeadline(t)
	if err == nil {
		err = c.SetWriteDeadline(t)
	}
	return err
}

// SetReadDeadline bounds Reads, those under way too. They may notice it up to 500 µs late.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.reader, t) }

// SetWriteDeadline bounds Writes, those under way too.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.writer, t) }

func (c *Conn) setDeadline(s *side, t time.Time) error {
	if c.isClosed() {
		return c.fail("set", net.ErrClosed)
	}
	s.deadline.set(t)
	return nil
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *Conn) fail(op string, err error) error { return opError(op, c.local, c.remote, err) }
