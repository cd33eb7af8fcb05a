package fakeverbs

import (
	"slices"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// Crossing is an exchange between a provider and its driver or device: private bytes of a call, an
// entry of a queue, or a doorbell.
type Crossing struct {
	Kind CrossingKind
	// Call is the name of a call to the kernel in the tables of this package.
	Call string
	// Object is the device's number of the QP or CQ of a queue or a record. With drivers in software
	// it is the handle of the CQ.
	Object uint32
	// SRQ means that Object is the handle of an SRQ, or its number with hardware. UD means that a
	// send is from a UD QP, XRC that it is from an initiator, and Raw that it is a raw packet.
	SRQ, UD, XRC, Raw, DC bool
	// Queue is the kind of entries of the queue that a record belongs to, with drivers in software,
	// and with eRDMA for the record of a new object. It may also be that of a doorbell's queue.
	Queue CrossingKind
	// Bytes is the entry that has been read or will be written, the private bytes of a call, or the
	// command of a doorbell that is a call. It may be changed.
	Bytes []byte
	// The place, the size and the value of a store, or the value of a record. They may be changed.
	// For a doorbell that is a call, Value is the number of waiting sends.
	Page         int // page of registers; 1 for the first key
	Offset, Size int
	Value        uint64
	Drop         bool   // set by the observer to drop the store
	Late         func() // with EntryCQE; see [Crossing.Torn]
}

// Torn makes the device pass ownership of a completion before it has written it. The device calls
// between before it writes the rest.
func (c *Crossing) Torn(between func()) { c.Late = between }

// CrossingKind is the kind of a crossing.
type CrossingKind string

// The kinds of crossings. A record is read after a store to a doorbell. With drivers in software it is
// an index that user space owns, or the word that requests an event, and the driver reads it whenever
// it checks the queue.
const (
	CallIn   CrossingKind = "in"    // private bytes of a call, before the driver reads them
	CallOut  CrossingKind = "out"   // private bytes of an answer
	EntrySQE CrossingKind = "sqe"   // a send, when the device reads it
	EntryRQE CrossingKind = "rqe"   // a receive
	EntryCQE CrossingKind = "cqe"   // a completion, before the device writes it
	Record   CrossingKind = "rec"   // a doorbell record, when the device reads it
	Doorbell CrossingKind = "store" // a store to a register, or the call in its place
)

// CrossRecord passes a doorbell record to Cross, and returns the value that Cross sets.
func (k *Kernel) CrossRecord(object uint32, offset, size int, v uint64) uint64 {
	if k.Cross == nil {
		return v
	}
	return k.ShowCrossing(Crossing{Kind: Record, Object: object, Offset: offset, Size: size, Value: v}).Value
}

// CrossEntry passes an entry that the device has read to Cross, which may change it.
func (k *Kernel) CrossEntry(kind CrossingKind, object uint32, entry []byte) {
	if k.Cross != nil {
		k.ShowCrossing(Crossing{Kind: kind, Object: object, Bytes: entry})
	}
}

// CrossCompletion is CrossEntry for a completion that the device will write. It returns the function of
// [Crossing.Torn], or nil.
func (k *Kernel) CrossCompletion(object uint32, entry []byte) (late func()) {
	if k.Cross == nil {
		return nil
	}
	return k.ShowCrossing(Crossing{Kind: EntryCQE, Object: object, Bytes: entry}).Late
}

// CrossSend is CrossEntry for a send.
func (k *Kernel) CrossSend(qp *QP, entry []byte) {
	if k.Cross != nil {
		k.ShowCrossing(Crossing{Kind: EntrySQE, Object: qp.Num, UD: qp.Type == abi.IB_UVERBS_QPT_UD, XRC: qp.Type == abi.IB_UVERBS_QPT_XRC_INI, DC: qp.Type == abi.IB_UVERBS_QPT_DRIVER,
			Raw: qp.Type == abi.IB_UVERBS_QPT_RAW_PACKET, Bytes: entry})
	}
}

// CrossShared is CrossEntry for a receive of an SRQ.
func (k *Kernel) CrossShared(srq uint32, entry []byte) {
	if k.Cross != nil {
		k.ShowCrossing(Crossing{Kind: EntryRQE, Object: srq, SRQ: true, Bytes: entry})
	}
}

// ShowCrossing passes a crossing to Cross, which may change it, and returns it. Without an observer the
// result is valid until the next call.
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

// crossCall passes the private bytes of a call or of its answer to Cross. Some drivers have none.
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

// crossDoorbell passes a doorbell that is a call to Cross, which may change its bytes. It reports whether
// the call takes effect. Without an observer it doesn't allocate.
func (k *Kernel) crossDoorbell(call string, says []byte, object uint32, waiting int) bool {
	c := k.ShowCrossing(Crossing{Kind: Doorbell, Call: call, Object: object, Bytes: slices.Clone(says), Value: uint64(waiting)})
	copy(says, c.Bytes)
	return !c.Drop
}

// Seam lets observers see a queue between user space and a driver in software. Without an observer its
// methods don't allocate.
type Seam struct {
	Kernel *Kernel
	Object uint32
	srq    bool
	UD     bool
	Kind   CrossingKind // kind of the entries
}

// ReadEntry passes a copy of an entry to the observer, which may change it, and returns the copy. Without an
// observer it returns the entry itself, of which the driver reads each field once.
func (s *Seam) ReadEntry(entry []byte) []byte {
	if s.Kernel.Cross == nil {
		return entry
	}
	entry = slices.Clone(entry)
	c := &Crossing{Kind: s.Kind, Object: s.Object, SRQ: s.srq, UD: s.UD, Bytes: entry}
	s.Kernel.Cross(c)
	copy(entry, c.Bytes)
	return entry
}

// WriteEntry is ReadEntry for an entry that the driver will write. It returns a function to call after the
// ownership has been passed and before the entry is written.
func (s *Seam) WriteEntry(entry []byte) (late func()) {
	if s.Kernel.Cross == nil {
		return nil
	}
	c := &Crossing{Kind: s.Kind, Object: s.Object, Bytes: slices.Clone(entry)}
	s.Kernel.Cross(c)
	copy(entry, c.Bytes)
	return c.Late
}

// ReadRecord reads a word that user space owns. An observer may change the value.
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

// MapPage maps registers of the device. The model sees each store to them.
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

// stored passes the stores to a page to the model: first the form of a store, then its value.
func (k *Kernel) stored(key int64) func(mmap.Store) {
	w, _ := k.Model.(watcher)
	c, _ := k.Model.(copier)
	b, _ := k.Model.(loader)
	return func(s mmap.Store) {
		defer crash()
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

// Store stores 4 or 8 bytes to the registers that are mapped at a key.
func (k *Kernel) Store(key int64, offset, size int, value uint64) {
	k.mu.Lock()
	defer k.unlock()
	if k.listens() {
		k.Model.Store(k, key, offset, size, value)
	}
}

// listens reports whether stores reach the device. If the device is gone, they go to unused memory.
func (k *Kernel) listens() bool { return !k.closed && !k.isGone() }

// copier is a model that accepts copies of whole requests in blocks of 64 bytes.
type copier interface {
	Copy64(key int64, offset int, b [64]byte)
}

// Copy stores 64 bytes to the registers that are mapped at a key.
func (k *Kernel) Copy(key int64, offset int, b [64]byte) {
	k.mu.Lock()
	defer k.unlock()
	if c, ok := k.Model.(copier); ok && k.listens() {
		c.Copy64(key, offset, b)
	}
}

// watcher is a model that checks the barriers of stores as far as it can see them.
type watcher interface {
	Watch(key int64, s mmap.Store)
}

// loader is a model with unordered loads. LoadBarrier is called without the lock, or during a store.
type loader interface{ LoadBarrier() }
