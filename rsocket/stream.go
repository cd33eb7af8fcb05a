package rsocket

import (
	"io"
	"syscall"
)

// message is a message to post: data, and a word that announces it.
type message struct {
	id     refund // the resources that its completion returns
	word   word
	inline []byte   // data, or
	data   [2]piece // parts of the send buffer; empty without data
	to     offer    // the destination of the data
	bare   bool     // there is no word
	quiet  bool     // it needs no completion
	probe  bool     // the peer's machine has to answer it; it has no data
}

func (m *message) hasData() bool { return len(m.inline) > 0 || m.data[0].n > 0 }

// link posts messages to a queue pair, in order.
type link interface {
	post(m *message) error
}

// stream is the rsocket protocol of one connection, without a queue pair. Its owner passes in the words that
// arrive and the completions. Its methods must not be called concurrently.
type stream struct {
	link  link
	iwarp bool
	own   memory
	peer  hello

	window window
	ring   sendRing
	slots  int    // free slots of the send queue for data
	spare  int    // free slots of the send queue for words
	sent   int    // slots of messages that have not completed
	short  bool   // something could not be sent before a message completes
	quiet  refund // resources of the quiet messages since the last one that completes
	most   refund // limit of quiet

	to    offer // the destination of the next data
	next  int   // the next entry of the table
	fresh bool  // a word has arrived since the entry was found empty

	mapped []mapping // the peer's mappings

	in   receiver
	ends ends
	// silent prevents all sending until the peer has sent, because over iWARP the side that accepted must
	// not send first.
	silent bool
	// overdue allows keep-alives in spite of silent, because the peer has had time to send.
	overdue bool
	shut    bool  // the word that ends this side's sending has not been sent yet
	all     bool  // that word is DISCONNECT
	failed  error // the reason why the connection failed

	m     message // the message to post, kept here to avoid an allocation
	entry [offerSize]byte

	violated  bool // the peer violated the protocol
	discarded bool // a Write after the peer's DISCONNECT has succeeded
}

// memory is the memory that a stream works on.
type memory struct {
	table    table  // of offers, which the peer writes
	mappings []byte // the table of mappings, which the peer writes
	recv     []byte // the receive buffer, which the peer writes
	send     []byte // the send buffer
	addr     uint64 // of recv
	key      uint32 // of recv
	inline   int    // maximum number of bytes that are sent without the send buffer
}

const (
	mostData = 64 << 10 // bytes of a message
	// leastData is the least free space in the send buffer for a message, so that a full buffer does
	// not lead to tiny messages.
	leastData = 2 << 10
	// spareSlots is the number of slots of the send queue that are for words only. The last two of them are
	// for SHUTDOWN and DISCONNECT.
	spareSlots = 8
	endSlots   = 2
)

func newStream(l link, own memory, peer hello, slots int, credits uint16, iwarp bool) *stream {
	return &stream{link: l, iwarp: iwarp, own: own, peer: peer,
		window: newWindow(peer.credits, iwarp), ring: sendRing{size: len(own.send)}, slots: slots, spare: spareSlots,
		most: newRefund(len(own.send)/4, slots/4, 0),
		to:   peer.buffer, next: 1, mapped: make([]mapping, len(own.mappings)/mappingSize), in: newReceiver(len(own.recv), credits)}
}

// slotsFor returns how many slots of the send queue a message takes.
func (s *stream) slotsFor(data bool) int {
	if s.iwarp && data {
		return 2
	}
	return 1
}

// read copies data that has arrived. It returns io.EOF at the orderly end, and 0 if there is no data.
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

// write sends as much of b as possible now.
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
	if !s.hasCredit() || !s.offered() {
		return 0, nil
	}
	n, ring := s.load(s.to.fit(b))
	if n == 0 {
		return 0, nil
	}
	s.m.word, s.m.to = newWord(opData, uint32(n)), s.to.take(n)
	return n, s.sendCredited(ring)
}

// unwritable returns the reason why nothing can be sent any more, or nil.
func (s *stream) unwritable() error {
	if s.shut || !s.ends.writable() {
		return syscall.EPIPE
	}
	return s.failed
}

// discard reports whether a Write succeeds without effect. Only the first Write after the peer's DISCONNECT
// does. Over TCP such data is sent before this side learns that the peer reads no more.
func (s *stream) discard() bool {
	if s.discarded || s.shut || !s.ends.gotDisconnect || s.ends.sentShutdown || s.ends.sentDisconnect {
		return false
	}
	s.discarded = true
	return true
}

// hasCredit reports whether there is a credit and a slot for a message with data and a word.
func (s *stream) hasCredit() bool {
	return !s.silent && s.window.open() && s.hasSlots(s.slotsFor(true))
}

// hasSlots reports whether n slots for data are free.
func (s *stream) hasSlots(n int) bool {
	if s.slots < n {
		s.short = true
		return false
	}
	return true
}

// load begins a message with b, or with the part of it that there is room for. It returns the size of that
// part, and how many bytes of the ring it takes.
func (s *stream) load(b []byte) (n, ring int) {
	if n = len(b); n <= s.own.inline {
		s.m = message{inline: b}
		return n, 0
	}
	if s.ring.free() < min(n, leastData) {
		s.short = true
		return 0, 0
	}
	n = min(n, s.ring.free())
	s.m = message{data: s.ring.take(n)}
	for _, p := range s.m.data {
		b = b[copy(s.own.send[p.off:][:p.n], b):]
	}
	return n, n
}

// offered reports whether there is an offer, and takes the next one if to is used up.
func (s *stream) offered() bool {
	if s.to.length == 0 && s.fresh {
		if s.to, s.fresh = s.own.table.take(s.next); s.fresh {
			s.next = (s.next + 1) % tableEntries
		}
	}
	return s.to.length > 0
}

// sendCredited posts the message, which has data and a word, and uses a credit.
func (s *stream) sendCredited(ring int) error {
	s.window.seq++
	return s.send(s.slotsFor(true), ring)
}

// send posts the message, which takes slots slots and ring bytes of the ring.
func (s *stream) send(slots, ring int) error {
	s.slots -= slots
	return s.post(newRefund(ring, slots, 0))
}

// post posts the message. Most messages of data are quiet: a completion would return only a slot or two, and
// cost an event. Sends complete in order, so the next completion also stands for the quiet ones before it.
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

// fail stores the error, unless the connection has failed or ended in order before.
func (s *stream) fail(err error) {
	if s.failed == nil && !s.ends.gotDisconnect {
		s.failed = err
	}
}

// completed returns the resources of a message and of the quiet ones before it.
func (s *stream) completed(r refund) {
	s.short = false
	s.sent -= r.slots() + r.spare()
	s.ring.give(r.ring())
	s.slots += r.slots()
	s.spare += r.spare()
}

// sendRing manages the send buffer. Bytes are taken and returned in order.
type sendRing struct {
	size, used, next int
}

// piece is a part of the send buffer.
type piece struct{ off, n int }

func (r *sendRing) free() int { return r.size - r.used }

// take takes n bytes, in one piece or two. There must be enough.
func (r *sendRing) take(n int) [2]piece {
	first := min(n, r.size-r.next)
	pieces := [2]piece{{r.next, first}, {0, n - first}}
	r.used += n
	r.next = (r.next + n) % r.size
	return pieces
}

// give returns the n oldest bytes.
func (r *sendRing) give(n int) { r.used -= n }

// refund holds the resources that the completion of messages returns: bytes of the send buffer, slots for
// data and slots for words. It serves as the WRID of a work request. The refunds of messages can be added.
type refund uint64

func newRefund(ring, slots, spare int) refund {
	return refund(ring)<<32 | refund(slots)<<8 | refund(spare)
}

func (r refund) ring() int  { return int(r >> 32) }
func (r refund) slots() int { return int(r >> 8 & 0xffffff) }
func (r refund) spare() int { return int(r & 0xff) }

// within reports whether neither the bytes nor the slots exceed those of most.
func (r refund) within(most refund) bool { return r.ring() <= most.ring() && r.slots() <= most.slots() }
