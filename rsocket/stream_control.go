package rsocket

import (
	"fmt"
)

// arrived processes the word of a message from the peer. Words are processed even after a send has
// failed, because they arrived before the failure although their completions are polled after it.
func (s *stream) arrived(w word) {
	s.silent = false
	if s.violated || s.ends.gotDisconnect {
		return
	}
	if err := s.take(w); err != nil {
		s.violate(err)
	}
}

// violate ends a connection whose peer violated the protocol. Later words are ignored.
func (s *stream) violate(err error) {
	s.violated = true
	s.fail(err)
}

func (s *stream) take(w word) error {
	switch w.op() {
	case opData:
		if w.value() == 0 {
			return violation("a message without data")
		}
		return s.gotData(w.value())
	case opSGL:
		s.fresh = true
		return s.window.raise(uint16(w.value()))
	case opIOMap:
		return s.gotMapping(w.value())
	case opControl:
		s.ends.got(w.value())
		return nil
	}
	return violation("%v", w)
}

// gotData accounts for n bytes, or for a message that only used a credit.
func (s *stream) gotData(n uint32) error {
	if s.ends.gotShutdown {
		return violation("data after the end of data")
	}
	return s.in.arrived(n)
}

// settle sends the words that are due: offers, credits, SHUTDOWN and DISCONNECT.
func (s *stream) settle() {
	if s.silent || s.failed != nil {
		return
	}
	for s.in.owes() && !s.ends.finished() && !s.ends.sentDisconnect && s.failed == nil {
		if !s.grant() {
			break
		}
	}
	if s.shut {
		s.shut = false
		if value, ok := s.ends.shut(s.all); ok {
			s.postSpare(message{word: newWord(opControl, value)})
		}
	}
}

// grant sends the peer credits, and an offer if a half is free. It reports whether the send queue had a slot
// for that.
func (s *stream) grant() bool {
	isOffer := s.in.owesOffer()
	if s.spare-s.slotsFor(isOffer) < endSlots {
		s.short = true
		return false
	}
	m := message{word: newWord(opSGL, uint32(s.in.limit()))}
	if isOffer {
		off, number := s.in.offer()
		offer{s.own.addr + uint64(off), s.own.key, uint32(s.in.half)}.put(s.entry[:], s.peer.order())
		at := number % uint64(s.peer.table.length) * offerSize
		m.inline, m.to = s.entry[:], offer{s.peer.table.addr + at, s.peer.table.key, offerSize}
	}
	s.postSpare(m)
	return true
}

func (s *stream) postSpare(m message) {
	cost := s.slotsFor(m.hasData())
	s.spare -= cost
	s.m = m
	_ = s.post(newRefund(0, 0, cost)) // an error is in s.failed
}

// keepAlive posts a message without data that the peer's machine answers. The peer's program does not notice it.
func (s *stream) keepAlive() {
	if (!s.silent || s.overdue) && s.failed == nil && !s.ends.over() && !s.ends.sentDisconnect && s.spare > endSlots {
		s.postSpare(message{bare: true, probe: true})
	}
}

// end sends the word that ends this side's sending and, with all, its receiving too.
func (s *stream) end(all bool) {
	s.shut, s.all = true, s.all || all
	s.settle()
}

// delivered reports whether the peer has all data or does not accept data any more.
func (s *stream) delivered() bool {
	return s.failed != nil || s.ends.gotDisconnect || s.sent == 0 && !s.shut
}

// ends records which of the two directions have ended, and how.
type ends struct {
	sentShutdown, sentDisconnect bool
	gotShutdown, gotDisconnect   bool
}

// finished reports whether the peer sends nothing more.
func (e *ends) finished() bool { return e.gotShutdown || e.gotDisconnect }

// writable reports whether neither side has ended this side's sending.
func (e *ends) writable() bool { return !e.sentShutdown && !e.sentDisconnect && !e.gotDisconnect }

// over reports whether nothing is sent any more in either direction.
func (e *ends) over() bool { return e.finished() && !e.writable() }

// shut ends this side's sending, and with all also its receiving. It returns the word to
// send, if there is one.
func (e *ends) shut(all bool) (value uint32, ok bool) {
	switch {
	case e.sentDisconnect || e.over():
		return 0, false
	case all || e.gotShutdown:
		e.sentDisconnect = true
		return ctrlDisconnect, true
	case e.sentShutdown:
		return 0, false
	}
	e.sentShutdown = true
	return ctrlShutdown, true
}

// got records the peer's word. Unknown words are ignored.
func (e *ends) got(value uint32) {
	switch value {
	case ctrlShutdown:
		e.gotShutdown = true
	case ctrlDisconnect:
		e.gotDisconnect = true
	}
}

// word is the control word of a message: an op in the upper three bits, and a value in the others. On
// InfiniBand and RoCE it is the immediate data of an RDMA WRITE. On iWARP it is a SEND of four bytes.
type word uint32

type op uint8

// The ops. The missing numbers are reserved.
const (
	opData    op = 0 // value is how many bytes were written to the last offer
	opSGL     op = 4 // value is the new credit limit; an offer may precede it
	opIOMap   op = 6 // value is an entry of the table of mappings
	opControl op = 7
)

// The values of opControl.
const (
	ctrlDisconnect uint32 = 0
	ctrlKeepAlive  uint32 = 1
	ctrlShutdown   uint32 = 2
)

const (
	opShift   = 29
	valueMask = 1<<opShift - 1
)

func newWord(o op, value uint32) word { return word(uint32(o)<<opShift | value&valueMask) }

func (w word) op() op        { return op(w >> opShift) }
func (w word) value() uint32 { return uint32(w) & valueMask }

func (w word) String() string { return fmt.Sprintf("op %d, value %d", w.op(), w.value()) }
