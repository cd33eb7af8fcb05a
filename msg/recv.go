package msg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/verbs"
)

// Recv waits for the next message and lends it until its Release. After the peer has
// closed the connection in order, and all its messages have been received, it returns
// io.EOF, unwrapped. If ctx ends first, the next call receives the message.
func (c *Conn) Recv(ctx context.Context) (*Message, error) {
	m, err := c.recv(ctx)
	if err == io.EOF {
		return nil, err
	}
	return m, c.failed("receive on", err)
}

func (c *Conn) recv(ctx context.Context) (*Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.recvTurn.Acquire(ctx, c.ending.shut); err != nil {
		return nil, c.explainEnd(err)
	}
	defer c.recvTurn.Release()
	for {
		m, err := c.tryRecv()
		if err == errNeedMemory {
			err = c.continueFetch()
		}
		if err != errAgain {
			return m, err
		}
		if _, err := wait.Await(ctx, &c.poller.turn, c.poller, c.arrived, nil); err != nil {
			return nil, err
		}
	}
}

// tryRecv receives the oldest message. If that is a large one, it starts to read it.
func (c *Conn) tryRecv() (*Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tryRecvLocked()
}

func (c *Conn) tryRecvLocked() (*Message, error) {
	if c.ending.isShut {
		return nil, net.ErrClosed
	}
	if c.waiting.len() == 0 {
		switch {
		case c.ending.peerClosed:
			return nil, io.EOF
		case isClosed(c.over):
			return nil, c.ending.first
		}
		return nil, errAgain
	}
	a := c.waiting.head()
	if a.large {
		return c.tryFetch(a)
	}
	m := &c.receives[a.slot].msg
	m.c, m.slot, m.data = c, a.slot, a.payload
	c.waiting.pop()
	c.held++
	return m, nil
}

// fetch is the state of reading the oldest message if that is a large one. READs
// continue when the call of Recv that started them returns. Only calls of Recv allocate
// memory, without the connection's lock, because that may take long. Memory is
// allocated step by step as it is filled, because a peer can send any number of RTS
// frames of 40 bytes at no cost.
type fetch struct {
	begun    bool
	busy     bool // a call is allocating memory
	into     *Buffer
	at       rts
	slot     int // slot of the receive of the RTS
	cookie   uint64
	done     int       // bytes that have been read
	inFlight int       // bytes of the posted READ
	since    time.Time // when it was posted
	reads    uint64
	op       [1]verbs.SendWR
	sge      [1]verbs.SGE
}

const (
	// piece is the maximum length of a READ, because devices limit the length of a message.
	piece = 1 << 20
	// firstPiece is the size of the first buffer of a message. Each later one is larger by
	// the factor growth.
	firstPiece, growth = 64 << 10, 4
)

// errNeedMemory means that the caller has to call continueFetch.
var errNeedMemory = errors.New("no memory yet")

// isDone reports whether the whole message has been read.
func (f *fetch) isDone() bool { return f.begun && uint64(f.done) == f.at.length }

// tryFetch starts to read a, or returns it if it has been read.
func (c *Conn) tryFetch(a *arrival) (*Message, error) {
	f := &c.fetch
	switch {
	case f.isDone():
		b := f.into
		f.into, f.begun = nil, false
		b.c = c
		b.msg = Message{c: c, large: b, data: b.all[:f.at.length]}
		c.waiting.pop()
		c.held++
		return &b.msg, nil
	case c.ending.failing && (f.inFlight == 0 || isClosed(c.over)):
		return nil, c.ending.first
	case f.inFlight > 0, f.busy:
		return nil, errAgain
	case !f.begun:
		f.begun, f.at, f.slot, f.cookie, f.done = true, a.at, a.slot, a.cookie, 0
	}
	f.busy = true
	return nil, errNeedMemory
}

// continueFetch allocates memory for the fetch, and posts a READ of the next piece into
// it. c is not held.
func (c *Conn) continueFetch() error {
	f := &c.fetch
	b, err := c.grow(f.into, 1<<classOf(int(f.at.length)), f.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	f.busy = false
	if err != nil {
		return err
	}
	if f.into = b; !c.ending.failing && !c.ending.isShut {
		c.postRead()
	}
	return errAgain
}

// grow replaces old, which is full, with a larger buffer, and copies the contents. If
// old is nil, it returns the first buffer of a message with size bytes.
func (c *Conn) grow(old *Buffer, size, done int) (*Buffer, error) {
	h := c.heap
	if old != nil {
		b, err := h.large(min(growth*len(old.all), size))
		if err != nil {
			return nil, err
		}
		copy(b.all, old.all[:done])
		b.received = true
		_ = h.remove(old.mem) // if it fails, Close tries again
		return b, nil
	}
	b, evicted, ok := h.account.toReceive(size)
	for _, b := range evicted {
		_ = b.heap.remove(b.mem)
	}
	if !ok {
		return nil, errAgain
	}
	if b == nil {
		var err error
		if b, err = h.large(min(firstPiece, size)); err != nil {
			h.account.giveUp(size)
			return nil, err
		}
	}
	b.received = true
	return b, nil
}

// postRead posts a READ of the next piece that fits into the memory.
func (c *Conn) postRead() {
	f := &c.fetch
	f.inFlight = min(int(f.at.length), len(f.into.all)) - f.done
	f.inFlight, f.since = min(f.inFlight, piece), time.Now()
	f.sge[0] = f.into.mem.SGE(f.done, f.inFlight)
	f.op[0] = verbs.SendWR{Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: f.sge[:],
		WRID: uint64(newWRID(c.id, kindRead, 0, 0)), RemoteAddr: f.at.addr + uint64(f.done), RKey: f.at.rkey}
	c.want(1)
	_ = c.post(f.op[:])
}

// onRead handles the completion of a READ. After the last one it returns the peer's
// memory with a FIN, and frees the receive of the RTS.
func (c *Conn) onRead() {
	f := &c.fetch
	f.done += f.inFlight
	c.stats.BytesReceived += uint64(f.inFlight)
	f.inFlight = 0
	f.reads++
	switch {
	case c.ending.isShut: // the message will not be received
		return
	case f.isDone():
		c.fins.push(f.cookie)
		c.freeReceive(f.slot)
	case f.done < len(f.into.all) && !c.ending.failing:
		c.postRead()
		return
	}
	c.wake()
}

// wakeReceiver wakes the call of Recv that waits for memory, or the next one.
func (c *Conn) wakeReceiver() {
	c.arrived.raise()
	c.poller.turn.Wake()
	if p := c.shape.pool; p != nil {
		p.ready.push(c)
		p.pairs[0].poller.turn.Wake()
	}
}

// receive is a receive buffer with its work request.
type receive struct {
	wr  [1]verbs.RecvWR
	sge [1]verbs.SGE
	all []byte
	msg Message
}

// newReceives returns n receives. The first has the given slot. Their buffers are at
// the start of all, which is in mem.
func (c *Conn) newReceives(slot, n int, all []byte, mem memory) []receive {
	stride, size := c.shape.stride(), frameSize+c.shape.eager
	made := make([]receive, n)
	for i := range made {
		r := &made[i]
		r.all, r.sge[0] = all[i*stride:][:size], mem.SGE(i*stride, size)
		r.wr[0] = verbs.RecvWR{WRID: uint64(newWRID(c.id, kindRecv, 0, slot+i)), SGL: r.sge[:]}
	}
	return made
}

// addReceives adds and posts receives. c is held.
func (c *Conn) addReceives(made []receive) error {
	for i := range made {
		c.receives = append(c.receives, &made[i])
		if err := c.postReceive(len(c.receives) - 1); err != nil {
			return err
		}
	}
	return nil
}

// expectFINs posts the receives for the FINs that answer large messages, before the
// first large message is sent.
func (c *Conn) expectFINs() error {
	c.finMu.Lock()
	defer c.finMu.Unlock()
	if c.finsPosted {
		return nil
	}
	all := make([]byte, rendezvous*c.shape.stride())
	mem, err := c.heap.add(all, verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	made := c.newReceives(c.shape.window+1, rendezvous, all, mem)
	c.finsPosted = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.addReceives(made); err != nil {
		c.fail(c.link.explain(err))
		return c.ending.whyDown()
	}
	return nil
}

// arrival is a message that has arrived and has not been received by the program.
type arrival struct {
	slot    int
	large   bool
	payload []byte
	at      rts // the location of a large message
	cookie  uint64
}

// postReceive posts a receive, unless the connection is ending. c is held.
func (c *Conn) postReceive(slot int) error {
	if c.ending.failing {
		return nil
	}
	if _, err := c.link.PostRecv(c.receives[slot].wr[:]); err != nil {
		return err
	}
	c.outstanding++
	return nil
}

// freeReceive posts the receive of a frame that used up a credit, and owes the peer a
// credit. c is held.
func (c *Conn) freeReceive(slot int) {
	if err := c.postReceive(slot); err != nil {
		c.fail(c.link.explain(err))
		return
	}
	c.grant.freed++
}

// onFrame handles a received frame. c is held.
func (c *Conn) onFrame(slot int, n uint32) error {
	if !c.greeted {
		return violation("a frame before the greeting")
	}
	all := c.receives[slot].all
	f, payload, err := parseFrame(all[:min(uint64(n), uint64(len(all)))])
	if err != nil {
		return err
	}
	if err := c.allow.raise(f.limit); err != nil {
		return err
	}
	if f.typ.usesCredit() {
		if err := c.grant.take(f.typ); err != nil {
			return err
		}
	}
	if !c.isOpen {
		c.maySend()
	}
	switch f.typ {
	case typeData, typeRTS:
		err = c.onMessage(slot, f, payload)
	case typeFIN:
		if err = c.onFIN(f.cookie); err == nil {
			err = c.postReceive(slot)
		}
	case typeCredit:
		if f.cookie != 0 {
			return violation("CREDIT with cookie %d", f.cookie)
		}
		c.freeReceive(slot)
	case typeClose:
		err = c.onClose(f)
	}
	return err
}

// onMessage queues a message, or drops it if the program has called Close.
func (c *Conn) onMessage(slot int, f frame, payload []byte) error {
	if c.got++; f.cookie != c.got || c.ending.peerClosed {
		return violation("%v with cookie %d as message %d", f.typ, f.cookie, c.got)
	}
	a := arrival{slot: slot, payload: payload, cookie: f.cookie}
	if f.typ == typeData {
		c.stats.BytesReceived += uint64(len(payload))
	} else {
		var err error
		if a.at, err = parseRTS(payload, c.shape.longest); err != nil {
			return err
		}
		a.large = true
	}
	if c.ending.isShut {
		c.freeReceive(slot)
		return nil
	}
	c.waiting.push(a)
	return nil
}

// Message is a received message in the memory that the device has written it to. It is
// lent until Release.
type Message struct {
	c     *Conn
	slot  int
	large *Buffer
	data  []byte
}

// Bytes returns the message. It must not be used after Release.
func (m *Message) Bytes() []byte { return m.data }

// Release returns the memory for the next messages. A program that keeps its messages stops the peer from sending:
// [Conn.Stats] counts them in MessagesHeld. Release must be called once. After that m belongs to the connection.
func (m *Message) Release() {
	if m == nil || m.c == nil {
		return
	}
	c, large := m.c, m.large
	m.c, m.large, m.data = nil, nil, nil
	if large != nil {
		c.mu.Lock()
		c.held--
		c.mu.Unlock()
		c.recycle(large)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held--
	c.freeReceive(m.slot)
	c.flush()
}

// Format implements [fmt.Formatter]. It prints the length, never the data.
func (m *Message) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "message of %d bytes", len(m.data)) }
