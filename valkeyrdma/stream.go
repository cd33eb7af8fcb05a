package valkeyrdma

import (
	"io"
	"syscall"
	"time"
)

// message is a message to post. It is data with a notice, a control message, or an empty write.
type message struct {
	id     mark
	signal bool // whether it needs a completion

	inline  []byte   // data, or
	data    [2]piece // parts of memory
	to      offer    // the destination of the data
	control bool     // whether the data is a control message
	empty   bool     // whether it is an empty write, without a notice
	probe   bool     // whether it is empty and the peer's machine has to answer it
}

// link is the queue pair of a stream, with its memory.
type link interface {
	// post posts a message. Messages are sent in order.
	post(m *message) error
	// sendBuffer returns the send buffer. It is called once, or again after an error.
	sendBuffer() ([]byte, error)
}

// piece is a part of the send buffer or, for a control message, of memory.control.
type piece struct{ off, n int }

// mark counts all slots of the send queue and all bytes of the send buffer that have been taken, modulo 2^32 each. It
// is the WRID of a work request. Sends complete in order, so a completion confirms all sends up to its mark.
type mark uint64

func (m mark) plus(slots, bytes int) mark {
	return mark(uint32(m>>32)+uint32(slots))<<32 | mark(uint32(m)+uint32(bytes))
}

// since returns the number of slots and bytes that were taken between other and m.
func (m mark) since(other mark) (slots, bytes int) {
	return int(uint32(m>>32) - uint32(other>>32)), int(uint32(m) - uint32(other))
}

const (
	// mostData is the maximum number of bytes per notice. The peer can read a piece while the
	// next one is on its way.
	mostData = 64 << 10
	// leastData is the free space in the send buffer that a message needs. It prevents tiny messages
	// while the buffer is nearly full.
	leastData = 2 << 10
	// The send queue has dataSlots for data and controlSlots for everything else.
	dataSlots    = 248
	controlSlots = 8
	// mostUnheard is the number of notices that may be sent at once while nothing arrives from the peer. Each
	// notice consumes a receive, and this end can't know when the peer reposts it. Further data is held back
	// for holdTime, or until there is more data or something arrives.
	mostUnheard = 256
	holdTime    = time.Millisecond
	// mostAnswers is the maximum number of requests of the peer that wait for answers.
	mostAnswers = 16
)

// stream implements the protocol of one connection, without a queue pair. Its owner passes in messages that have
// arrived and sends that have completed. Its methods must not be called concurrently.
type stream struct {
	link     link
	own      memory
	accepted bool // whether this end is the server

	// The receive buffer.
	offered       bool // whether the peer may write to it
	arrived, read int  // bytes since the last offer

	// The peer's receive buffer.
	to      offer
	sent    uint32 // bytes since the last offer, including those held back
	held    int    // bytes in the send buffer that are held back
	due     bool   // whether to send the held bytes
	unheard int    // notices sent since something arrived

	// The send queue and the send buffer.
	posted, done, signaled mark
	next                   int  // offset in the send buffer for the next data
	short                  bool // something could not be sent before a message completes

	answers  []uint16 // selectors of feature requests that wait for answers
	answered mark     // mark of the last answer
	silent   bool     // whether nothing may be sent yet
	ended    bool     // whether the connection has ended in order
	failed   error    // the reason for the end of the connection

	m         message // the message to post, kept here to avoid an allocation
	discarded bool    // whether a Write after the peer's end has succeeded
}

// memory is the memory of a stream.
type memory struct {
	recv    []byte // the receive buffer, which the peer writes
	data    []byte // the send buffer; nil before the first data that needs it
	control []byte // the offer of the receive buffer, and an answer
	sends   int    // size of the send buffer
	inline  int    // maximum size of data that is sent without the send buffer
}

// The places of these control messages in memory.control, and its size.
var (
	offerAt  = piece{0, commandSize}
	answerAt = piece{commandSize, commandSize}
)

const controlSize = 2 * commandSize

// take copies received data to b. It returns 0 if no data is available, and io.EOF after an orderly end.
func (s *stream) take(b []byte) (int, error) {
	n := copy(b, s.own.recv[s.read:s.arrived])
	if n == 0 {
		if s.ended {
			return 0, io.EOF
		}
		return 0, s.failed
	}
	if s.read += n; s.read == len(s.own.recv) {
		s.arrived, s.read, s.offered = 0, 0, false
		s.settle()
	}
	return n, nil
}

// write sends as much of b as is possible now.
func (s *stream) write(b []byte) (written int, err error) {
	for len(b) > 0 {
		n := 0
		if n, err = s.writeOne(b); n == 0 {
			break
		}
		written += n
		b = b[n:]
	}
	return written, err
}

func (s *stream) writeOne(b []byte) (int, error) {
	switch {
	case s.ended:
		return 0, syscall.EPIPE
	case s.failed != nil:
		return 0, s.failed
	}
	// The size of the peer's buffer may exceed a 32-bit int.
	n := int(min(uint64(len(b)), uint64(s.to.length-s.sent), mostData))
	if n == 0 || s.silent {
		return 0, nil
	}
	holds := s.held > 0 || s.unheard >= mostUnheard
	if s.own.data == nil && (holds || n > s.own.inline) {
		data, err := s.link.sendBuffer()
		if err != nil {
			return 0, err
		}
		s.own.data = data
	}
	if holds {
		return s.hold(b[:n])
	}
	if s.outstanding() >= dataSlots {
		s.short = true
		return 0, nil
	}
	if n <= s.own.inline {
		s.m = message{inline: b[:n]}
		return n, s.notify(n, 0)
	}
	if n = s.room(n); n == 0 {
		return 0, nil
	}
	s.m = message{data: s.load(b[:n])}
	return n, s.notify(n, n)
}

// room returns the number of bytes, at most n, that fit into the send buffer now.
func (s *stream) room(n int) int {
	_, used := s.posted.since(s.done)
	free := s.own.sends - used - s.held
	s.short = s.short || free < n
	if free < min(n, leastData) {
		return 0
	}
	return min(n, free)
}

// hold copies as much of b as possible to the send buffer, to be sent later together with further data.
func (s *stream) hold(b []byte) (int, error) {
	n := s.room(len(b))
	s.load(b[:n])
	s.held += n
	s.sent += uint32(n)
	s.due = s.due || n < len(b)
	s.release()
	return n, s.failed
}

// release sends data that is held back, if it is due.
func (s *stream) release() {
	s.due = s.held > 0 && (s.due || s.sent == s.to.length || s.unheard < mostUnheard)
	for (s.due || s.held >= mostData) && s.held > 0 && s.outstanding() < dataSlots && s.failed == nil {
		n := min(s.held, mostData)
		s.m = message{data: s.pieces((s.next+s.own.sends-s.held)%s.own.sends, n)}
		s.held -= n
		s.sent -= uint32(s.held + n)
		_ = s.notify(n, n) // a failure is stored
		s.sent += uint32(s.held)
	}
	s.due = s.due && s.held > 0
	s.short = s.short || s.due
}

// notify posts the message, which has n bytes for the peer's buffer. bytes is the number of them that are in the send
// buffer.
func (s *stream) notify(n, bytes int) error {
	s.m.to = offer{s.to.addr + uint64(s.sent), uint32(n), s.to.key}
	s.sent += uint32(n)
	s.unheard++
	return s.post(bytes, false)
}

// load copies b to the send buffer, which must have room for it.
func (s *stream) load(b []byte) [2]piece {
	pieces := s.pieces(s.next, len(b))
	for _, p := range pieces {
		b = b[copy(s.own.data[p.off:][:p.n], b):]
	}
	s.next = (s.next + pieces[0].n + pieces[1].n) % s.own.sends
	return pieces
}

// pieces returns the parts of the send buffer, which wraps around, that hold n bytes from an offset on.
func (s *stream) pieces(off, n int) [2]piece {
	first := min(n, s.own.sends-off)
	return [2]piece{{off, first}, {0, n - first}}
}

// post posts the message. Most data messages need no completion, which would cost an event, because the completion of a
// later message confirms them too.
func (s *stream) post(bytes int, signal bool) error {
	s.posted = s.posted.plus(1, bytes)
	slots, used := s.posted.since(s.signaled)
	if s.m.signal = signal || slots >= dataSlots/4 || used >= s.own.sends/4; s.m.signal {
		s.signaled = s.posted
	}
	s.m.id = s.posted
	err := s.link.post(&s.m)
	if s.m.inline = nil; err != nil {
		s.fail(err)
	}
	return err
}

// settle sends control messages and held data that are due.
func (s *stream) settle() {
	if s.silent || s.failed != nil {
		return
	}
	s.release()
	s.short = s.short || (!s.offered || len(s.answers) > 0) && !s.hasSlot()
	if !s.offered && s.hasSlot() {
		s.offered = true
		s.m = message{control: true, data: [2]piece{offerAt}}
		_ = s.post(0, true) // a failure is stored
	}
	for len(s.answers) > 0 && s.hasSlot() {
		if behind, _ := s.posted.since(s.answered); uint32(s.outstanding()) > uint32(behind) {
			s.short = true // the last answer has not been sent
			return
		}
		(&command{op: getServerFeature, selector: s.answers[0]}).put(s.own.control[answerAt.off:])
		s.answers = s.answers[1:]
		s.m = message{control: true, data: [2]piece{answerAt}}
		_ = s.post(0, true)
		s.answered = s.posted
	}
}

// keepAlive sends an empty message, which the peer's machine must answer, unless another completion is expected. Unlike
// the protocol's Keepalive it consumes no receive, so a peer that doesn't poll for hours stays connected.
func (s *stream) keepAlive() {
	if s.done == s.signaled && s.hasSlot() && s.failed == nil && !s.silent {
		s.m = message{empty: true, probe: true}
		_ = s.post(0, true) // a failure is stored
	}
}

// flush sends data that is held back. It ensures that all outstanding sends will be confirmed by a completion.
func (s *stream) flush() {
	s.due = s.held > 0
	s.release()
	if s.posted != s.signaled && s.outstanding() > 0 && s.failed == nil {
		s.m = message{empty: true}
		_ = s.post(0, true)
	}
}

// hasSlot reports whether the send queue has a slot for a control message.
func (s *stream) hasSlot() bool { return s.outstanding() < dataSlots+controlSlots }

// outstanding returns the number of sends that have not completed.
func (s *stream) outstanding() int {
	slots, _ := s.posted.since(s.done)
	return slots
}

// completed records that all sends up to a mark have completed.
func (s *stream) completed(m mark) { s.done, s.short = m, false }

// noticed handles a notice of n bytes.
func (s *stream) noticed(n uint32) {
	free := len(s.own.recv) - s.arrived
	if !s.offered {
		free = 0
	}
	if uint64(n) > uint64(free) {
		s.fail(violation("a notice of %d bytes, and there is room for %d", n, free))
		return
	}
	s.heard()
	s.arrived += int(n)
}

// commanded handles a control message.
func (s *stream) commanded(b []byte) {
	c, err := parseCommand(b)
	switch {
	case err != nil:
	case c.op == registerMemory && (s.sent != s.to.length || s.held > 0):
		err = violation("a buffer is offered, and of the last one %d bytes are not used", s.to.length-s.sent+uint32(s.held))
	case c.op == registerMemory:
		s.to, s.sent = c.buffer, 0
	case c.op == keepAlive:
	case !s.accepted:
		err = violation("a server sent opcode %d", c.op)
	case c.op == setClientFeature && c.features != 0:
		err = violation("a client has features %#x, and none is defined", c.features)
	case c.op == getServerFeature && len(s.answers) == mostAnswers:
		err = violation("more than %d questions at a time", mostAnswers)
	case c.op == getServerFeature:
		s.answers = append(s.answers, c.selector)
	}
	if err != nil {
		s.fail(err)
		return
	}
	s.heard()
}

// heard records that something has arrived.
func (s *stream) heard() { s.silent, s.unheard = false, 0 }

// fail stores the reason for the end of the connection, unless it has ended before.
func (s *stream) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// end records an orderly end of the connection, unless it has ended before.
func (s *stream) end(err error) {
	s.ended = s.ended || s.failed == nil
	s.fail(err)
}

// discard reports whether a Write succeeds without effect. The first one after the peer's end does, as over TCP, where
// such data is sent before this side learns that the peer no longer reads. A reply that the peer has sent can still be
// read.
func (s *stream) discard() bool {
	if s.discarded || !s.ended {
		return false
	}
	s.discarded = true
	return true
}
