package fakeverbs

import (
	"slices"
	"sync/atomic"
)

// Seam is where a queue of a driver in software is between user space and the driver. Without an
// observer its methods allocate nothing.
type Seam struct {
	Kernel *Kernel
	Object uint32
	srq    bool
	UD     bool
	Kind   CrossingKind // of the entries
}

// ReadEntry shows an entry that the driver has copied, and has it be what an observer makes of it.
func (s *Seam) ReadEntry(entry []byte) {
	if s.Kernel.Cross == nil {
		return
	}
	c := &Crossing{Kind: s.Kind, Object: s.Object, SRQ: s.srq, UD: s.UD, Bytes: slices.Clone(entry)}
	s.Kernel.Cross(c)
	copy(entry, c.Bytes)
}

// WriteEntry is read for an entry that the driver is about to write. It returns what is to be
// called when the entry was handed over and is not written.
func (s *Seam) WriteEntry(entry []byte) (late func()) {
	if s.Kernel.Cross == nil {
		return nil
	}
	c := &Crossing{Kind: s.Kind, Object: s.Object, Bytes: slices.Clone(entry)}
	s.Kernel.Cross(c)
	copy(entry, c.Bytes)
	return c.Late
}

// ReadRecord reads a word of user space's, as user space wrote it or as an observer has it.
func (s *Seam) ReadRecord(word *atomic.Uint32) uint32 {
	v := word.Load()
	if s.Kernel.Cross == nil {
		return v
	}
	c := &Crossing{Kind: Record, Object: s.Object, SRQ: s.srq, Queue: s.Kind, Value: uint64(v)}
	s.Kernel.Cross(c)
	if uint32(c.Value) != v {
		v = uint32(c.Value)
		word.Store(v)
	}
	return v
}
