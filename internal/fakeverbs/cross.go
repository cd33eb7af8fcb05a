package fakeverbs

import (
	"slices"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// Crossing is something that crosses the seam between a provider and its driver or device:
// private bytes of a call, an entry of a queue, a doorbell.
type Crossing struct {
	Kind CrossingKind
	// Call names a call to the kernel, by the names of the tables in this package.
	Call string
	// Object is the device's number of the QP or CQ that a queue or a record is of, and with
	// drivers in software the handle of the CQ.
	Object uint32
	// SRQ says that Object is the handle of an SRQ, or with hardware its number. UD says that a
	// send is of a UD QP, XRC that it is of an initiator, and Raw that it is a raw packet.
	SRQ, UD, XRC, Raw bool
	// Queue is the kind of the entries of the queue that a record stands in, with drivers in software,
	// and of the queue that a record of a new object is of, with eRDMA.
	Queue CrossingKind
	// Bytes are the entry as it is read or about to be written, or the private bytes of a
	// call, or all that a doorbell says that is a call. They may be changed.
	Bytes []byte
	// A store: where, how long and what; of a record, what. They may be changed. Of a
	// doorbell that is a call, Value is how many sends wait.
	Page         int // of registers: 1 for the first key
	Offset, Size int
	Value        uint64
	Drop         bool   // set it, and the store never gets there
	Late         func() // with EntryCQE: see [Crossing.Torn]
}

// Torn makes the device hand over a completion before it is written, and call between
// before it writes the rest.
func (c *Crossing) Torn(between func()) { c.Late = between }

// CrossingKind is the kind of a crossing.
type CrossingKind string

// The kinds of crossings. A record is read when a doorbell is stored to; with drivers in
// software it is an index of user space's, or the word that asks for an event, and the driver
// reads it when it looks at the queue.
const (
	CallIn   CrossingKind = "in"    // private bytes of a call, before the driver reads them
	CallOut  CrossingKind = "out"   // and of its answer
	EntrySQE CrossingKind = "sqe"   // a send, when the device reads it
	EntryRQE CrossingKind = "rqe"   // a receive
	EntryCQE CrossingKind = "cqe"   // a completion, before the device writes it
	Record   CrossingKind = "rec"   // a doorbell record, when the device reads it
	Doorbell CrossingKind = "store" // a store to a register, or the call in its place
)

// CrossRecord shows a doorbell record to Cross, and returns the value that Cross leaves.
func (k *Kernel) CrossRecord(object uint32, offset, size int, v uint64) uint64 {
	if k.Cross == nil {
		return v
	}
	return k.ShowCrossing(Crossing{Kind: Record, Object: object, Offset: offset, Size: size, Value: v}).Value
}

// CrossEntry shows an entry that the device has read, which Cross may change.
func (k *Kernel) CrossEntry(kind CrossingKind, object uint32, entry []byte) {
	if k.Cross != nil {
		k.ShowCrossing(Crossing{Kind: kind, Object: object, Bytes: entry})
	}
}

// CrossSend is crossEntry for a send.
func (k *Kernel) CrossSend(qp *QP, entry []byte) {
	if k.Cross != nil {
		k.ShowCrossing(Crossing{Kind: EntrySQE, Object: qp.Num, UD: qp.Type == abi.IB_UVERBS_QPT_UD, XRC: qp.Type == abi.IB_UVERBS_QPT_XRC_INI,
			Raw: qp.Type == abi.IB_UVERBS_QPT_RAW_PACKET, Bytes: entry})
	}
}

// CrossShared is crossEntry for a receive of an SRQ.
func (k *Kernel) CrossShared(srq uint32, entry []byte) {
	if k.Cross != nil {
		k.ShowCrossing(Crossing{Kind: EntryRQE, Object: srq, SRQ: true, Bytes: entry})
	}
}

// ShowCrossing shows a crossing to Cross, and returns it as Cross leaves it. Without an observer it
// is valid until the next one.
func (k *Kernel) ShowCrossing(c Crossing) *Crossing {
	if k.Cross == nil {
		k.crossing = c
		return &k.crossing
	}
	shown := new(Crossing)
	*shown = c
	k.Cross(shown)
	return shown
}

// crossCall shows the private bytes of a call, one way. Some drivers have none.
func (k *Kernel) crossCall(kind CrossingKind, name string, r *ioctl.Request) {
	if k.Cross == nil {
		return
	}
	id := uint16(abi.UVERBS_ATTR_UHW_IN)
	if kind == CallOut {
		id = abi.UVERBS_ATTR_UHW_OUT
	}
	b, _ := r.Bytes(id)
	k.Cross(&Crossing{Kind: kind, Call: name, Bytes: b})
}

// crossDoorbell shows a call that stands for a store, and replaces its
// bytes by those that an observer leaves. It reports whether the call gets there. Without an observer it allocates nothing.
func (k *Kernel) crossDoorbell(call string, says []byte, object uint32, waiting int) bool {
	c := k.ShowCrossing(Crossing{Kind: Doorbell, Call: call, Object: object, Bytes: slices.Clone(says), Value: uint64(waiting)})
	copy(says, c.Bytes)
	return !c.Drop
}

// Seam is where a queue of a driver in software is between user space and the driver. Without an
// observer its methods allocate nothing.
type Seam struct {
	Kernel *Kernel
	Object uint32
	srq    bool
	UD     bool
	Kind   CrossingKind // of the entries
}

// ReadEntry shows an entry that the driver has copied, and replaces it by the observer's.
func (s *Seam) ReadEntry(entry []byte) {
	if s.Kernel.Cross == nil {
		return
	}
	c := &Crossing{Kind: s.Kind, Object: s.Object, SRQ: s.srq, UD: s.UD, Bytes: slices.Clone(entry)}
	s.Kernel.Cross(c)
	copy(entry, c.Bytes)
}

// WriteEntry is ReadEntry for an entry that the driver is about to write. It returns the function to be
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

// MapPage maps registers of the device's. The model sees each store to them.
func (k *Kernel) MapPage(key int64, length int) (*mmap.Page, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fault("MMAP"); err != nil {
		return nil, err
	}
	if err := k.Model.MapRegisters(k, key, length); err != nil {
		return nil, err
	}
	r, err := mmap.Wrap(make([]byte, RoundUp(length)))
	if err != nil {
		return nil, err
	}
	return mmap.NewPage(r, k.stored(key))
}

// stored passes the stores of a page to the model: first the form of each, then its value.
func (k *Kernel) stored(key int64) func(mmap.Store) {
	w, _ := k.Model.(watcher)
	c, _ := k.Model.(copier)
	b, _ := k.Model.(loader)
	return func(s mmap.Store) {
		if s.Kind == mmap.LoadBarrier {
			if b != nil {
				b.LoadBarrier()
			}
			return
		}
		k.mu.Lock()
		defer k.unlock()
		if !k.listens() {
			return
		}
		if w != nil {
			w.Watch(key, s)
		}
		switch s.Kind {
		case mmap.StorePlain, mmap.StoreWC:
			k.Model.Store(k, key, s.Offset, s.Size, s.Value)
		case mmap.StoreCopy:
			if c != nil {
				c.Copy64(key, s.Offset, *s.Bytes)
			}
		}
	}
}

// Store is a store of 4 or 8 bytes to the registers that are mapped at a key.
func (k *Kernel) Store(key int64, offset, size int, value uint64) {
	k.mu.Lock()
	defer k.unlock()
	if k.listens() {
		k.Model.Store(k, key, offset, size, value)
	}
}

// listens reports whether stores get to the device. A program whose
// device is gone stores to memory of no meaning.
func (k *Kernel) listens() bool { return !k.closed && !k.isGone() }

// copier is a model that accepts copies of whole requests in blocks of 64 bytes.
type copier interface {
	Copy64(key int64, offset int, b [64]byte)
}

// Copy is a store of 64 bytes to the registers that are mapped at a key.
func (k *Kernel) Copy(key int64, offset int, b [64]byte) {
	k.mu.Lock()
	defer k.unlock()
	if c, ok := k.Model.(copier); ok && k.listens() {
		c.Copy64(key, offset, b)
	}
}

// watcher is a model that checks the barriers of stores, as far as they are visible.
type watcher interface {
	Watch(key int64, s mmap.Store)
}

// loader is a model of loads that are not ordered. LoadBarrier is called without the lock, or
// within a store.
type loader interface{ LoadBarrier() }
