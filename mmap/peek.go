package mmap

import "sync/atomic"

// Peek tells from one word that a consumer's ring is empty, whatever kind of ring it
// is. A program that polls in a loop finds most of its queues empty, and needs no
// call through an interface for that. One goroutine at a time may use a consumer and
// its Peek.
type Peek struct {
	start  slotsStart
	offset uint64 // of the word, from start
	empty  uint32 // the word, while the ring is empty
}

// NewHiddenPeek returns one whose Empty is always false.
func NewHiddenPeek() *Peek {
	p := new(Peek)
	p.Hide()
	return p
}

// Empty tells that there is nothing to consume. False means that there may be
// something, or that the ring is corrupt: ask the consumer.
func (p *Peek) Empty() bool { return wordFrom(p.start, p.offset).Load() == p.empty }

// Expect has Empty be true as long as that word has the value, which was loaded from it. For a
// ring without a consumer of this package.
func (p *Peek) Expect(word *atomic.Uint32, empty uint32) {
	p.start, p.offset, p.empty = startOfWord(word), 0, empty
}

// Hide has Empty be false from then on, so that all who look go to the consumer.
func (p *Peek) Hide() { p.start, p.offset, p.empty = startOf(zeros[:], 0), 0, 1 }

var zeros [4]byte
