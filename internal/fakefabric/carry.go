package fakefabric

import (
	"encoding/binary"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/mmap"
)

// end is a queue pair and the opening that it belongs to.
type end struct {
	d  *device
	qp *fakeverbs.QP
}

// carry carries out the oldest send of a queue pair.
func (d *device) carry(qp *fakeverbs.QP) bool {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	from := end{d, qp}
	w, ok := from.take()
	if ok && !d.f.park(from, &w) {
		d.f.deliver(from, &w)
	}
	return ok
}

// deliver carries out a send. The lock is held.
func (f *Fabric) deliver(from end, w *work) {
	var to end
	if qpn, ok := f.peers[from.qp.Num]; ok {
		to.d, to.qp = f.find(qpn)
	}
	if to.qp == nil || to.qp.State() != abi.IB_QPS_RTS {
		from.complete(w, true)
		from.qp.Break()
		return
	}
	to.serve(w)
	if w.signalled {
		from.complete(w, false)
	}
}

// serve does at the peer what a send asks for.
func (e end) serve(w *work) {
	t := e.d.f.t
	switch at := e.open(w); {
	case w.size() > 0 && at == nil && w.kind != send:
		t.Errorf("work request of kind %d: %d bytes at %#x with key %#x are not open to it", w.kind, w.size(), w.addr, w.key)
	case w.kind == read:
		w.scatter(at)
	case w.kind == add, w.kind == swap:
		old := binary.NativeEndian.Uint64(at)
		w.scatter(at)
		if w.kind == add {
			binary.NativeEndian.PutUint64(at, old+w.compare)
		} else if old == w.compare {
			binary.NativeEndian.PutUint64(at, w.swap)
		}
	case w.kind == write:
		place(at, w.data)
	}
	if w.kind == send || w.hasImm {
		e.receive(w)
	}
}

// access is the right that each kind of work needs at the peer.
var access = map[kind]uint32{
	read: abi.IB_UVERBS_ACCESS_REMOTE_READ, write: abi.IB_UVERBS_ACCESS_REMOTE_WRITE,
	add: abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC, swap: abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC,
}

// open finds the memory that a send names, if its key opens it.
func (e end) open(w *work) []byte {
	right, ok := access[w.kind]
	if !ok || w.size() == 0 {
		return nil
	}
	for _, mr := range e.d.MRs() {
		if mr.Key == w.key && mr.Access&right == right && w.addr >= mr.Start && w.addr-mr.Start+uint64(w.size()) <= mr.Length {
			return e.d.at(w.addr, uint32(w.size()))
		}
	}
	return nil
}

// place writes as devices do: aligned words that are few come at once.
func place(to, from []byte) {
	const few = 64
	if len(from) == 0 || len(from) > few || len(from)%8 != 0 {
		copy(to, from)
		return
	}
	region, err := mmap.Wrap(to)
	if err != nil {
		panic(err)
	}
	defer func() { _ = region.Close() }()
	for at := 0; at < len(from); at += 8 {
		word, err := region.Word64(at)
		if err != nil {
			copy(to[at:], from[at:])
			return
		}
		word.Store(binary.NativeEndian.Uint64(from[at:]))
	}
}

// receive takes a receive for a message.
func (e end) receive(w *work) {
	id, room, ok := e.takeReceive()
	switch {
	case !ok && e.qp.State() != abi.IB_QPS_RTS: // it is being closed
	case !ok:
		e.d.f.t.Error("no receive was posted")
	case w.kind == send && room.scatter(w.data) < len(w.data):
		e.d.f.t.Errorf("a message of %d bytes is longer than its receive", len(w.data))
	default:
		e.received(id, w)
	}
}
