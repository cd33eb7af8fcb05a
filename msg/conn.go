package msg

import (
	"net/netip"
	"sync"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// Conn is a connection that carries messages, in order, and one-sided operations. Its
// methods may be called concurrently.
type Conn struct {
	link  link
	cm    *rdmacm.Conn
	id    uint32
	shape shape
	heap  *heap

	domain  any  // within which memory keys are good
	leaving bool // no program will have it; guarded by the pool's lock
	parts   bool // it is closed in the background; likewise
	place   place
	seat    *seat // in the pool
	pump    *pump // its own, or the seat's

	// Once the connection is open, these stay as they are.
	peer  hello
	eager int // the longest message that goes with its frame

	ring  memory       // of all small buffers
	small chan *Buffer // that may be sent from

	opsOnce sync.Once
	ops     chan *op // that are free
	opRoom  []byte   // their memory, in the ring
	opsAt   int

	expecting sync.Mutex // guards expects
	expects   bool       // the receives of FINs are posted

	sendTurn, recvTurn turn
	room               signal        // for the call with the sendTurn: there may be credit
	arrived            signal        // for the call with the recvTurn: a message, or the end
	opened             chan struct{} // closed when this side may send
	down               chan struct{} // closed when nothing may be sent any more
	over               chan struct{} // closed when no work request is left
	closed             chan struct{} // closed when Close is done

	freeing sync.Mutex // guards what follows
	closing closing

	mu       sync.Mutex // guards what follows
	greeted  bool       // the peer's greeting is known
	isOpen   bool       // opened is closed
	allow    allowance
	grant    grants
	receives []*receive
	buffers  []*Buffer // the small ones by slot
	opBySlot []*op
	waiting  fifo[arrival] // messages that nobody has taken
	loans    loans         // large messages that the peer is to read
	fins     fifo[uint64]  // owed to the peer
	fetch    fetch         // of a large message
	endTold  bool          // by the pool's Recv
	watch    watch         // of the peer

	sent, got   uint64 // messages
	quiet       quiet
	outstanding int // work requests that will complete
	controls    int // of them frames without a buffer
	wants       int // reasons to hear of completed sends
	control     [1]verbs.SendWR
	header      [frameSize + rtsSize]byte

	ending
}

// newConn makes the part of a connection that does not know the peer.
func newConn(l link, id uint32, s shape, domain any) *Conn {
	c := &Conn{
		link: l, id: id, shape: s, domain: domain, quiet: quiet{most: s.quiet()},
		small: make(chan *Buffer, s.buffers()), ops: make(chan *op, opSlots),
		room: newSignal(), arrived: newSignal(),
		opened: make(chan struct{}), down: make(chan struct{}), over: make(chan struct{}), closed: make(chan struct{}),
		waiting: newFIFO[arrival](s.window), fins: newFIFO[uint64](s.window),
	}
	if s.pool == nil {
		c.pump = new(pump)
	}
	c.sendTurn.init()
	c.recvTurn.init()
	c.heap = &heap{register: l.register, account: &account{budget: s.budget(), wake: c.wakeReceiver, hurry: c.hurry}}
	c.ending.shut = make(chan struct{})
	return c
}

// prepare registers the small buffers and posts the receives of the window and of a CLOSE.
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

// open begins to exchange frames. The side that dialled may send at once, because the
// peer's greeting says how much, and grants with its first frame; the other side may
// send when that has come: over iWARP the side that dialled has to send first.
func (c *Conn) open(peer hello, dialled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.greeted = true
	c.peer, c.eager = peer, min(int(peer.eager), c.shape.eager)
	c.allow.window, c.grant.window = peer.window, uint16(c.shape.window)
	if !dialled {
		c.grant.told = c.grant.window
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

// CM is the connection below, with the queue pair, the protection domain and the
// device. Its completions are the Conn's: use Do to post, and Close of the Conn to close.
func (c *Conn) CM() *rdmacm.Conn { return c.cm }

// LocalAddr is this end's address and port.
func (c *Conn) LocalAddr() netip.AddrPort { return c.cm.LocalAddr() }

// RemoteAddr is the peer's.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.cm.RemoteAddr() }
