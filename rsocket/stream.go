package rsocket

import (
	"io"
	"syscall"
)

// message is one message to post: data and a word that tells of it.
type message struct {
	id     refund // what its completion gives back
	word   word
	inline []byte   // data, or
	data   [2]piece // of the send buffer; without data both are empty
	to     offer    // where the data goes
	bare   bool     // there is no word
	quiet  bool     // it needs no completion
}

func (m *message) hasData() bool { return len(m.inline) > 0 || m.data[0].n > 0 }

// link posts messages to a queue pair, in order.
type link interface {
	post(m *message) error
}

// stream is rsocket's protocol of one connection, without a queue pair. Its owner
// tells it what was received and what was sent. Its methods may not be called
// concurrently.
type stream struct {
	link  link
	iwarp bool
	own   memory
	peer  hello

	window window
	ring   sendRing
	slots  int    // of the send queue that are free for data
	spare  int    // of the send queue that are free for words
	sent   int    // slots of messages that have not completed
	quiet  refund // of quiet messages since the last one that completes
	most   refund // of quiet messages in a row

	to    offer // where data goes
	next  int   // entry of the table
	fresh bool  // a word came since the entry was found empty

	mapped []mapping // where the peer lets this side write

	in   receiver
	ends ends
	// silent holds everything back until the peer has spoken. Over iWARP the side
	// that was dialled must not be the first to send.
	silent bool
	// overdue says that the peer had time to speak: keep-alives need not wait any longer.
	overdue bool
	shut    bool  // the word about the end of this side's sending waits
	all     bool  // it is to be DISCONNECT
	failed  error // why the connection is of no more use

	m     message // the one that is posted, here so that it is not allocated
	entry [offerSize]byte

	violated  bool // the peer broke a rule
	discarded bool // a Write behind the peer's DISCONNECT has succeeded
}

// memory is what a stream works on.
type memory struct {
	table    table  // of offers, which the peer writes
	mappings []byte // the table of mappings, which the peer writes
	recv     []byte // the receive buffer, which the peer writes
	send     []byte // the send buffer
	addr     uint64 // of recv
	key      uint32 // of recv
	inline   int    // bytes that go without the send buffer
}

const (
	mostData = 64 << 10 // bytes of a message
	// leastData is as much as the send buffer has room for before a message is sent, so
	// that a full buffer is not sent on in crumbs.
	leastData = 2 << 10
	// spareSlots of the send queue are for words only, and the last two of them for
	// SHUTDOWN and DISCONNECT.
	spareSlots = 8
	endSlots   = 2
)

func newStream(l link, own memory, peer hello, slots int, credits uint16, iwarp bool) *stream {
	return &stream{link: l, iwarp: iwarp, own: own, peer: peer,
		window: newWindow(peer.credits, iwarp), ring: sendRing{size: len(own.send)}, slots: slots, spare: spareSlots,
		most: newRefund(len(own.send)/4, slots/4, 0),
		to:   peer.buffer, next: 1, mapped: make([]mapping, len(own.mappings)/mappingSize), in: newReceiver(len(own.recv), credits)}
}

// slotsFor is how many slots of the send queue a message takes.
func (s *stream) slotsFor(data bool) int {
	if s.iwarp && data {
		return 2
	}
	return 1
}

// read copies what has arrived. It returns io.EOF at the orderly end, and 0 if there is
// nothing.
func (s *stream) read(b []byte) (int, error) {
	n := min(len(b), s.in.buffered())
	if n == 0 {
		switch {
		case s.ends.finished():
			return 0, io.EOF
		default:
			return 0, s.failed
		}
	}
	at := s.in.place(s.in.read)
	copied := copy(b[:n], s.own.recv[at:])
	copy(b[copied:n], s.own.recv)
	s.in.take(n)
	s.settle()
	return n, nil
}

// write sends as much of b as may be sent now.
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
	if err := s.unwritable(); err != nil {
		return 0, err
	}
	if !s.mayTell() || !s.offered() {
		return 0, nil
	}
	n, ring := s.load(s.to.fit(b))
	if n == 0 {
		return 0, nil
	}
	s.m.word, s.m.to = newWord(opData, uint32(n)), s.to.take(n)
	return n, s.tell(ring)
}

// unwritable is why nothing can be sent any more.
func (s *stream) unwritable() error {
	if s.shut || !s.ends.writable() {
		return syscall.EPIPE
	}
	return s.failed
}

// discard reports whether a Write is to succeed without effect: the first one behind the
// peer's DISCONNECT. Over TCP it leaves before this side knows that the peer reads no more.
func (s *stream) discard() bool {
	if s.discarded || s.shut || !s.ends.gotDisconnect || s.ends.sentShutdown || s.ends.sentDisconnect {
		return false
	}
	s.discarded = true
	return true
}

// mayTell reports whether there is a credit and a slot for a message with data and a word.
func (s *stream) mayTell() bool {
	return !s.silent && s.window.open() && s.slots >= s.slotsFor(true)
}

// load begins a message with b, or with as much of it as there is room for. It returns
// how much that is, and how much of the ring it takes up.
func (s *stream) load(b []byte) (n, ring int) {
	if n = len(b); n <= s.own.inline {
		s.m = message{inline: b}
		return n, 0
	}
	if s.ring.free() < min(n, leastData) {
		return 0, 0
	}
	n = min(n, s.ring.free())
	s.m = message{data: s.ring.take(n)}
	for _, p := range s.m.data {
		b = b[copy(s.own.send[p.off:][:p.n], b):]
	}
	return n, n
}

// offered makes sure that to is an offer, if there is one.
func (s *stream) offered() bool {
	if s.to.length == 0 && s.fresh {
		if s.to, s.fresh = s.own.table.take(s.next); s.fresh {
			s.next = (s.next + 1) % tableEntries
		}
	}
	return s.to.length > 0
}

// tell posts the message, which has data and a word, for a credit.
func (s *stream) tell(ring int) error {
	s.window.seq++
	return s.send(s.slotsFor(true), ring)
}

// send posts the message, which takes up so many slots and bytes of the ring.
func (s *stream) send(slots, ring int) error {
	s.slots -= slots
	return s.post(newRefund(ring, slots, 0))
}

// post posts the message. Few messages of data complete: that tells of a slot or two, and
// costs an event. Sends complete in order, so the next completion stands for the quiet ones.
func (s *stream) post(r refund) error {
	s.sent += r.slots() + r.spare()
	s.quiet += r
	if s.m.quiet = r.spare() == 0 && s.quiet.within(s.most); s.m.quiet {
		s.m.id = 0
	} else {
		s.m.id, s.quiet = s.quiet, 0
	}
	err := s.link.post(&s.m)
	if s.m.inline = nil; err != nil {
		s.fail(err)
	}
	return err
}

// fail ends a connection that has not ended in order.
func (s *stream) fail(err error) {
	if s.failed == nil && !s.ends.gotDisconnect {
		s.failed = err
	}
}

// completed takes back what a message took up, and the quiet ones before it.
func (s *stream) completed(r refund) {
	s.sent -= r.slots() + r.spare()
	s.ring.give(r.ring())
	s.slots += r.slots()
	s.spare += r.spare()
}

// sendRing keeps account of the send buffer: bytes are taken in order and come back
// in order.
type sendRing struct {
	size, used, next int
}

// piece is a part of the send buffer.
type piece struct{ off, n int }

func (r *sendRing) free() int { return r.size - r.used }

// take takes n bytes, of which there are enough, in one piece or two.
func (r *sendRing) take(n int) [2]piece {
	first := min(n, r.size-r.next)
	pieces := [2]piece{{r.next, first}, {0, n - first}}
	r.used += n
	r.next = (r.next + n) % r.size
	return pieces
}

// give returns the n oldest bytes.
func (r *sendRing) give(n int) { r.used -= n }

// refund is what the completion of messages gives back: bytes of the send buffer, slots for
// data and slots for words. It is the number of a work request. Those of several messages
// add up.
type refund uint64

func newRefund(ring, slots, spare int) refund {
	return refund(ring)<<32 | refund(slots)<<8 | refund(spare)
}

func (r refund) ring() int  { return int(r >> 32) }
func (r refund) slots() int { return int(r >> 8 & 0xffffff) }
func (r refund) spare() int { return int(r & 0xff) }

// within tells whether neither the bytes nor the slots are more than most's.
func (r refund) within(most refund) bool { return r.ring() <= most.ring() && r.slots() <= most.slots() }
