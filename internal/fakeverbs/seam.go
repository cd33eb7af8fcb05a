package fakeverbs

import (
	"slices"
	"sync/atomic"
)

// seam is where a queue of siw's or rxe's is between user space and the driver. Without an
// observer its methods allocate nothing.
type seam struct {
	k      *Kernel
	object uint32
	srq    bool
	ud     bool
	kind   CrossingKind // of the entries
}

// read shows an entry that the driver has copied, and has it be what an observer makes of it.
func (s *seam) read(entry []byte) {
	if s.k.Cross == nil {
		return
	}
	c := &Crossing{Kind: s.kind, Object: s.object, SRQ: s.srq, UD: s.ud, Bytes: slices.Clone(entry)}
	s.k.Cross(c)
	copy(entry, c.Bytes)
}

// write is read for an entry that the driver is about to write. It returns what is to be
// called when the entry was handed over and is not written.
func (s *seam) write(entry []byte) (late func()) {
	if s.k.Cross == nil {
		return nil
	}
	c := &Crossing{Kind: s.kind, Object: s.object, Bytes: slices.Clone(entry)}
	s.k.Cross(c)
	copy(entry, c.Bytes)
	return c.Late
}

// record reads a word of user space's, as user space wrote it or as an observer has it.
func (s *seam) record(word *atomic.Uint32) uint32 {
	v := word.Load()
	if s.k.Cross == nil {
		return v
	}
	c := &Crossing{Kind: Record, Object: s.object, SRQ: s.srq, Queue: s.kind, Value: uint64(v)}
	s.k.Cross(c)
	if uint32(c.Value) != v {
		v = uint32(c.Value)
		word.Store(v)
	}
	return v
}
