package fakeverbs

import (
	"encoding/binary"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
)

// siwRing is the driver's side of one of siw's queues: entries of one size, whose owner
// a flag tells. It knows the layout by its offsets and reads and writes bytes, so that
// it shares no mistake with the rings of package mmap. Go has no atomics of 8 and 16
// bits: what the driver does to a flag alone is done to the word of 32 bits that the
// flag is the start of.
type siwRing struct {
	seam
	data  []byte
	words []*atomic.Uint32 // with the flags, at siwFlags of each entry
	size  int
	next  int // free-running
}

// Where the fields of an entry stand: struct siw_sqe, siw_rqe, siw_cqe, and siw_sge.
const (
	siwID    = 0 // of all three
	siwFlags = 8 // u16, of a CQE u8

	siwSQERKey  = 12
	siwSQERAddr = 16
	siwSQESGE   = 24
	siwRQESGE   = 16

	siwCQEBytes = 12
	siwCQEImm   = 16
	siwCQEQP    = 24

	siwSGESize = 16
)

func newSIWRing(at seam, region *mmap.Region, n uint32, size int) (*siwRing, error) {
	q := &siwRing{seam: at, data: region.Bytes(), words: make([]*atomic.Uint32, n), size: size}
	for i := range q.words {
		var err error
		if q.words[i], err = region.Word(i*size + siwFlags); err != nil {
			return nil, syscall.EINVAL
		}
	}
	return q, nil
}

// head is the entry that is next, and its word.
func (q *siwRing) head() (entry []byte, word *atomic.Uint32) {
	i := q.next % len(q.words)
	return q.data[i*q.size:][:q.size], q.words[i]
}

// waiting counts the entries that are the driver's.
func (q *siwRing) waiting() (n int) {
	for n < len(q.words) && q.words[(q.next+n)%len(q.words)].Load()&abi.SIW_WQE_VALID != 0 {
		n++
	}
	return n
}

// copied is an entry whose word was loaded, and the word.
func (q *siwRing) copied(e []byte, word uint32) (b [sqeSize]byte, now uint32) {
	copy(b[:], e)
	binary.NativeEndian.PutUint32(b[siwFlags:], word)
	q.read(b[:q.size])
	return b, u32(b[:], siwFlags)
}

// takeSend copies the oldest send out and gives the entry back. The driver clears the
// flags and leaves all else as it is.
func (q *siwRing) takeSend() (s abi.SiwSqe, ok bool) {
	e, w := q.head()
	word := w.Load()
	if word&abi.SIW_WQE_VALID == 0 {
		return s, false
	}
	b, word := q.copied(e, word)
	if e = b[:]; word&abi.SIW_WQE_VALID == 0 {
		return s, false
	}
	s = abi.SiwSqe{Id: u64(e, siwID), Flags: uint16(word), NumSge: uint8(word >> 16), Opcode: uint8(word >> 24),
		Rkey: u32(e, siwSQERKey), Raddr: u64(e, siwSQERAddr)}
	readSGEs(&s.Sge, e[siwSQESGE:])
	q.drop(w, word&^0xffff)
	return s, true
}

// takeRecv ignores an entry with any flag but the one.
func (q *siwRing) takeRecv() (r abi.SiwRqe, ok bool) {
	e, w := q.head()
	word := w.Load()
	if uint16(word) != abi.SIW_WQE_VALID {
		return r, false
	}
	b, word := q.copied(e, word)
	if e = b[:]; uint16(word) != abi.SIW_WQE_VALID {
		return r, false
	}
	r = abi.SiwRqe{Id: u64(e, siwID), Flags: uint16(word), NumSge: uint8(word >> 16)}
	readSGEs(&r.Sge, e[siwRQESGE:])
	q.drop(w, word&^0xffff)
	if r.NumSge > abi.SIW_MAX_SGE {
		q.k.device.violations.note("receive %d: %d SGEs", r.Id, r.NumSge)
	}
	return r, true
}

func (q *siwRing) drop(w *atomic.Uint32, rest uint32) {
	w.Store(rest)
	q.next++
}

// put writes a completion: its fields, then the flag. It reports whether user space had
// given the entry back.
func (q *siwRing) put(c *abi.SiwCqe) bool {
	e, w := q.head()
	if w.Load()&0xff != 0 {
		return false
	}
	var b [cqeSize]byte
	binary.NativeEndian.PutUint64(b[siwID:], c.Id)
	binary.NativeEndian.PutUint32(b[siwFlags:], abi.SIW_WQE_VALID|uint32(c.Opcode)<<8|uint32(c.Status)<<16)
	binary.NativeEndian.PutUint32(b[siwCQEBytes:], c.Bytes)
	binary.NativeEndian.PutUint64(b[siwCQEImm:], c.ImmData)
	binary.NativeEndian.PutUint64(b[siwCQEQP:], c.QpId)
	late := q.write(b[:])
	word := u32(b[:], siwFlags)
	if late != nil {
		w.Store(word)
		late()
	}
	copy(e[:siwFlags], b[:])
	copy(e[siwCQEBytes:], b[siwCQEBytes:])
	w.Store(word &^ 0xff)
	w.Store(word)
	q.next++
	return true
}

// readSGEs reads all that an entry has room for, used or not: inline data stands there
// too.
func readSGEs(to *[abi.SIW_MAX_SGE]abi.SiwSge, from []byte) {
	for i := range to {
		b := from[i*siwSGESize:]
		to[i] = abi.SiwSge{Laddr: u64(b, 0), Length: u32(b, 8), Lkey: u32(b, 12)}
	}
}

func u64(b []byte, at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
func u32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
