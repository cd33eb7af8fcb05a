package siw

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/mmap"
)

// ring is the driver's side of one of siw's queues. The entries have one size, and a flag marks their
// owner. ring reads and writes bytes at the offsets of the layout, so it can't share errors with the rings
// of package mmap. Go has no 8-bit and 16-bit atomics, so changes of a flag are made to the 32-bit word
// that begins with the flag.
type ring struct {
	fakeverbs.Seam
	data  []byte
	words []*atomic.Uint32 // words with the flags, by entry
	size  int
	next  int // free-running
}

// Offsets of fields in struct siw_sqe, siw_rqe, siw_cqe and siw_sge.
const (
	id    = 0 // of all three
	flags = 8 // u16, of a CQE u8

	sqerKey  = 12
	sqerAddr = 16
	sqesge   = 24
	rqesge   = 16

	cqeBytes = 12
	cqeImm   = 16
	cqeqp    = 24

	sgeSize = 16
)

func newRing(at fakeverbs.Seam, region *mmap.Region, n uint32, size int) (*ring, error) {
	q := &ring{Seam: at, data: region.Bytes(), words: make([]*atomic.Uint32, n), size: size}
	for i := range q.words {
		var err error
		if q.words[i], err = region.Word(i*size + flags); err != nil {
			return nil, syscall.EINVAL
		}
	}
	return q, nil
}

// head returns the next entry and its word.
func (q *ring) head() (entry []byte, word *atomic.Uint32) {
	i := q.next % len(q.words)
	return q.data[i*q.size:][:q.size], q.words[i]
}

// waiting returns the number of entries that the driver owns.
func (q *ring) waiting() (n int) {
	for n < len(q.words) && q.words[(q.next+n)%len(q.words)].Load()&abi.SIW_WQE_VALID != 0 {
		n++
	}
	return n
}

// read returns an entry whose word has been loaded, and the word, as an observer wants them.
func (q *ring) read(e []byte, word uint32) (entry []byte, now uint32) {
	if q.Kernel.Cross == nil {
		return e, word
	}
	e = bytes.Clone(e)
	binary.NativeEndian.PutUint32(e[flags:], word)
	e = q.ReadEntry(e)
	return e, u32(e, flags)
}

// takeSend copies the oldest send and returns the entry to user space. The driver clears the flags and
// changes nothing else.
func (q *ring) takeSend() (s abi.SiwSqe, ok bool) {
	e, w := q.head()
	word := w.Load()
	if word&abi.SIW_WQE_VALID == 0 {
		return s, false
	}
	if e, word = q.read(e, word); word&abi.SIW_WQE_VALID == 0 {
		return s, false
	}
	s = abi.SiwSqe{Id: u64(e, id), Flags: uint16(word), NumSge: uint8(word >> 16), Opcode: uint8(word >> 24),
		Rkey: u32(e, sqerKey), Raddr: u64(e, sqerAddr)}
	readSGEs(&s.Sge, e[sqesge:])
	q.drop(w, word&^0xffff)
	return s, true
}

// takeRecv takes the oldest receive. It ignores an entry with flags other than valid.
func (q *ring) takeRecv() (r abi.SiwRqe, ok bool) {
	e, w := q.head()
	word := w.Load()
	if uint16(word) != abi.SIW_WQE_VALID {
		return r, false
	}
	if e, word = q.read(e, word); uint16(word) != abi.SIW_WQE_VALID {
		return r, false
	}
	r = abi.SiwRqe{Id: u64(e, id), Flags: uint16(word), NumSge: uint8(word >> 16)}
	readSGEs(&r.Sge, e[rqesge:])
	q.drop(w, word&^0xffff)
	if r.NumSge > abi.SIW_MAX_SGE {
		q.Kernel.Device.Note("receive %d: %d SGEs", r.Id, r.NumSge)
	}
	return r, true
}

func (q *ring) drop(w *atomic.Uint32, rest uint32) {
	w.Store(rest)
	q.next++
}

// put writes the fields of a completion, then the flag. It reports whether user space had returned the
// entry.
func (q *ring) put(c *abi.SiwCqe) bool {
	e, w := q.head()
	if w.Load()&0xff != 0 {
		return false
	}
	var b [cqeSize]byte
	binary.NativeEndian.PutUint64(b[id:], c.Id)
	binary.NativeEndian.PutUint32(b[flags:], abi.SIW_WQE_VALID|uint32(c.Opcode)<<8|uint32(c.Status)<<16)
	binary.NativeEndian.PutUint32(b[cqeBytes:], c.Bytes)
	binary.NativeEndian.PutUint64(b[cqeImm:], c.ImmData)
	binary.NativeEndian.PutUint64(b[cqeqp:], c.QpId)
	late := q.WriteEntry(b[:])
	word := u32(b[:], flags)
	if late != nil {
		w.Store(word)
		late()
	}
	copy(e[:flags], b[:])
	copy(e[cqeBytes:], b[cqeBytes:])
	w.Store(word &^ 0xff)
	w.Store(word)
	q.next++
	return true
}

// readSGEs reads the whole array of SGEs, used or not, because inline data is in the same place.
func readSGEs(to *[abi.SIW_MAX_SGE]abi.SiwSge, from []byte) { copy(abi.Bytes(to), from) }

func u64(b []byte, at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
func u32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
