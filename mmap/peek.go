package mmap

import "sync/atomic"

// Peek reports from one word that a consumer's ring of any kind is empty. A program that
// polls in a loop finds most of its queues empty, and saves a call through an interface. One
// goroutine at a time may use a consumer and its Peek. Call Expect or Hide before Empty.
type Peek struct {
	start  slotsStart
	offset uint64 // of the word, from start
	empty  uint64 // the word, while the ring is empty; more than 32 bits if that is not known
}

const unknown = 1 << 32

// Empty reports whether there is surely nothing to consume. If it returns false, there may be
// an element, or the ring is corrupt: ask the consumer.
func (p *Peek) Empty() bool { return uint64(wordFrom(p.start, p.offset).Load()) == p.empty }

// Expect makes Empty return true while word has the value empty, which was loaded from it. It
// is for rings without a consumer of this package.
func (p *Peek) Expect(word *atomic.Uint32, empty uint32) {
	p.start, p.offset, p.empty = startOfWord(word), 0, uint64(empty)
}

// Clear makes Empty return false until the next Expect. It is cheaper than Hide. Empty still loads
// the word, so its memory must stay valid.
func (p *Peek) Clear() { p.empty = unknown }

// Hide is Clear for a word whose memory goes away: Empty no longer loads it.
func (p *Peek) Hide() { p.start, p.offset, p.empty = startOf(zeros[:], 0), 0, unknown }

var zeros [4]byte
