package msg

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/onesided"
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// Conn is a connection that carries messages, in order, and one-sided operations. Its
// methods may be called concurrently.
type Conn struct {
	link  link
	id    uint32
	shape shape
	heap  *heap

	domain       any  // the protection domain, in which memory keys are valid
	abandoned    bool // it is being closed and was never returned to the program; guarded by the pool's lock
	inBackground bool // it is being closed in the background; guarded by the pool's lock
	place        place
	cqPair       *cqPair // in the pool
	poller       *poller // its own, or that of the cqPair

	// These do not change once the connection is open.
	peer  hello
	eager int // the longest message that is sent in its frame

	ring  memory       // of all small buffers
	small chan *Buffer // free small buffers

	opRoom []byte // the memory of the one-sided operations, in the ring
	opsAt  int

	finMu      sync.Mutex // guards finsPosted
	finsPosted bool       // the receives for FINs are posted

	sendTurn, recvTurn wait.Turn
	room               signal        // wakes the holder of sendTurn when there may be credit
	arrived            signal        // wakes the holder of recvTurn after a message or the end has arrived
	opened             chan struct{} // closed when this side may send
	down               chan struct{} // closed when nothing may be sent any more
	over               chan struct{} // closed when no work request is left
	closed             chan struct{} // closed when Close is done

	freeing sync.Mutex // guards closing
	closing closing

	mu          sync.Mutex // guards the fields below
	greeted     bool       // the peer's greeting is known
	isOpen      bool       // opened is closed
	allow       allowance
	grant       grants
	receives    []*receive
	buffers     []*Buffer // the small buffers, by slot
	onesided    *onesided.Queue[opEntry]
	batches     fifo[*batch]  // not posted completely
	spare       []*batch      // for later calls
	waiting     fifo[arrival] // messages that have not been received
	lent        lentBuffers   // large messages that the peer has not read
	fins        fifo[uint64]  // cookies of FINs that are due
	fetch       fetch         // of a large message
	endReported bool          // Pool.Recv has returned the end
	watchdog    watchdog

	sent, got   uint64 // messages
	held        uint64 // received messages that the program has not released
	stats       rdmacm.ConnStats
	unsignaled  unsignaled
	outstanding int // work requests that will complete
	controls    int // the outstanding frames without a buffer
	wants       int // reasons to handle completed sends at once
	control     [1]verbs.SendWR
	header      [frameSize + rtsSize]byte

	ending
}

// newConn returns a connection that is not connected. It does not know the peer yet.
func newConn(l link, id uint32, s shape, domain any) *Conn {
	c := &Conn{
		link: l, id: id, shape: s, domain: domain, unsignaled: unsignaled{most: s.maxUnsignaled()},
		small: make(chan *Buffer, s.buffers()),
		room:  newSignal(), arrived: newSignal(),
		opened: make(chan struct{}), down: make(chan struct{}), over: make(chan struct{}), closed: make(chan struct{}),
		waiting: newFIFO[arrival](s.window), fins: newFIFO[uint64](s.window), batches: newFIFO[*batch](1),
	}
	if s.pool == nil {
		c.poller = new(poller)
	}
	if c.closing.linger = -1; s.linger != 0 {
		c.closing.linger = max(s.linger, 0)
	}
	c.sendTurn.Init(nil)
	c.recvTurn.Init(nil)
	c.heap = &heap{register: l.register, account: &account{budget: s.budget(), wake: c.wakeReceiver, hurry: c.hurry}}
	c.ending.shut = make(chan struct{})
	return c
}

// prepare registers the small buffers, and posts the receives for the window and for a
// CLOSE.
func (c *Conn) prepare() (err error) {
	n, stride := c.shape.window+1, c.shape.stride()
	opsAt := (n + c.shape.buffers()) * stride
	all := make([]byte, opsAt+opSlots*opRoom)
	if c.ring, err = c.heap.add(all, verbs.AccessLocalWrite); err != nil {
		return err
	}
	for i := range c.shape.buffers() {
		at := (n + i) * stride
		b := &Buffer{slot: i, mem: c.ring, all: all[at:][:frameSize+c.shape.eager]}
		b.sge[0] = c.ring.SGE(at, 0)
		b.wr[0] = verbs.SendWR{Opcode: verbs.OpSend, SGL: b.sge[:]}
		c.buffers = append(c.buffers, b)
		c.small <- b
	}
	c.opRoom, c.opsAt = all[opsAt:], opsAt
	made := c.newReceives(0, n, all, c.ring)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addReceives(made)
}

// open starts the exchange of frames. The side that dialled may send at once, because
// the peer's greeting contained the limits. Its first frame grants credits to the
// peer. Only then may the peer send, because over iWARP the side that dialled must
// send first.
func (c *Conn) open(peer hello, dialled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.greeted = true
	c.peer, c.eager = peer, min(int(peer.eager), c.shape.eager)
	c.allow.window, c.grant.window = peer.window, uint16(c.shape.window)
	if !dialled {
		c.grant.announced = c.grant.window
		return
	}
	c.allow.limit = peer.window
	c.maySend()
	c.flush()
}

// maySend lets this side send. c is held.
func (c *Conn) maySend() {
	c.isOpen = true
	close(c.opened)
}

// CM returns the connection manager's underlying connection, with its queue pair, protection domain and
// device. Its completions belong to c: use DoWR to post work requests, and c.Close to
// close it. A connection over a stream has none, and CM returns nil.
func (c *Conn) CM() *rdmacm.Conn {
	cm, _ := c.base().(*rdmacm.Conn)
	return cm
}

// Done returns a channel that is closed when the connection has ended: either side closed it, or it broke. Messages
// that arrived before can still be received.
func (c *Conn) Done() <-chan struct{} { return c.base().Done() }

// MaxMessage returns the length in bytes of the longest message that the peer accepts. A longer one fails with an error
// that matches [ErrTooLong].
func (c *Conn) MaxMessage() int { return int(c.peer.longest) }

// LocalAddr returns the local address and port. A connection over a stream has port 0.
func (c *Conn) LocalAddr() netip.AddrPort { return c.base().LocalAddr() }

// RemoteAddr returns the peer's address and port. A connection over a stream has port 0.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.base().RemoteAddr() }

// link is the transport of a Conn: a connected queue pair, or a fake one in tests.
type link interface {
	PostSend([]verbs.SendWR) (int, error)
	PostRecv([]verbs.RecvWR) (int, error)
	register([]byte, verbs.Access) (memory, error)
	explain(error) error // returns the cause of the end, or the error itself while the connection is up
	disconnect()         // makes all posted work requests complete
	close() error        // frees everything; no work request completes afterwards
}

// memory is a memory region.
type memory interface {
	SGE(off, n int) verbs.SGE
	Addr() uint64
	RKey() uint32
	Close() error
}

// rdmaLink is a link over a connected queue pair.
type rdmaLink struct{ conn.Conn }

// base returns the queue pair's connection, or nil in a test.
func (c *Conn) base() conn.Conn {
	l, _ := c.link.(rdmaLink)
	return l.Conn
}

func (l rdmaLink) PostSend(wrs []verbs.SendWR) (int, error) { return l.QP().PostSend(wrs) }
func (l rdmaLink) PostRecv(wrs []verbs.RecvWR) (int, error) { return l.QP().PostRecv(wrs) }
func (l rdmaLink) disconnect()                              { _ = l.Disconnect() }

// close closes the connection. It is not an error if the connection was closed
// through Conn.CM.
func (l rdmaLink) close() error {
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// explain returns the cause of the end. If it only knows of a flushed receive,
// explain returns err, because the receive may have been polled before the send that
// failed first.
func (l rdmaLink) explain(err error) error {
	if cause := l.Explain(err); !errors.Is(cause, verbs.StatusWRFlushErr) {
		return cause
	}
	return err
}

func (l rdmaLink) register(b []byte, access verbs.Access) (memory, error) {
	return l.PD().RegMR(b, access)
}

// Format implements [fmt.Formatter]. It prints the addresses and the state, never memory.
func (c *Conn) Format(f fmt.State, _ rune) {
	state := "open"
	if c.isShut() {
		state = "closed"
	}
	fmt.Fprintf(f, "msg connection %v to %v, %s", c.LocalAddr(), c.RemoteAddr(), state)
}
