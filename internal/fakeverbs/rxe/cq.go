package rxe

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// CQ is rxe's side of a completion queue.
type CQ struct {
	cq     *fakeverbs.CQ
	ring   *ring
	notify uint32 // IB_CQ_ bits
}

// Complete writes an entry as it stands, and raises an event if user space asked
// for one of any kind. It reports whether there was room; a CQ that overflows
// reports it by an asynchronous event.
func (q *CQ) Complete(e abi.IbUverbsWc) bool {
	q.cq.Kernel().Lock()
	defer q.cq.Kernel().Unlock()
	return q.complete(&e, false)
}

// CompleteSolicited raises an event also if user space asked for a solicited one.
func (q *CQ) CompleteSolicited(e abi.IbUverbsWc) bool {
	q.cq.Kernel().Lock()
	defer q.cq.Kernel().Unlock()
	return q.complete(&e, true)
}

func (q *CQ) complete(e *abi.IbUverbsWc, solicited bool) bool {
	if !q.ring.put(abi.Bytes(e)) {
		q.cq.Overflow()
		return false
	}
	if q.notify&abi.IB_CQ_NEXT_COMP != 0 || q.notify&abi.IB_CQ_SOLICITED != 0 && solicited {
		q.notify = 0
		q.cq.RaiseEvent()
	}
	return true
}

// SetProducer sets the kernel's index in shared memory to any value.
func (q *CQ) SetProducer(index uint32) { q.ring.producer.Store(index) }

// Notify adds to earlier requests, as since Linux 6.2.
func (*model) Notify(cq *fakeverbs.CQ, flags uint32) error {
	CQOf(cq).notify |= flags
	return nil
}

// ResizeCQ copies unread completions to a new ring. The old one, which
// user space still has mapped, is left empty.
func (m *model) ResizeCQ(cq *fakeverbs.CQ, n uint32, r *ioctl.Request) error {
	old := CQOf(cq).ring
	first := old.consumer.Load()
	if n == 0 || n > maxCQE || n < (old.index-first)&old.mask || !fakeverbs.HasRoom(r, 16) {
		return syscall.EINVAL
	}
	var mem fakeverbs.QueueMemory
	ring, mi, err := m.newRing(fakeverbs.Seam{Object: cq.ID, Kind: fakeverbs.EntryCQE}, &mem, n, cqeSize)
	if err != nil {
		return err
	}
	if err := old.move(ring, first, old.index); err != nil {
		mem.Free()
		return err
	}
	ring.index = ring.producer.Load()
	cq.Mem.Free()
	cq.Mem, CQOf(cq).ring, cq.Entries = mem, ring, ring.mask
	return fakeverbs.AnswerDriver(r, abi.RxeResizeCqResp{Mi: mi})
}

// ring is the kernel's side of a queue, as rxe_queue.h has it: the index that
// the kernel owns is private and only copied to the shared header.
type ring struct {
	fakeverbs.Seam
	data               []byte
	mask, stride       uint32
	producer, consumer *atomic.Uint32
	index              uint32 // this side's
	recv               *Recv  // the last one taken
}

// Offsets in struct rxe_queue_buf.
const (
	producer = 128
	consumer = 256
	data     = 384
)

// cqeSize is the kernel's own struct ib_wc, the larger half of the union that
// is an entry.
const cqeSize = 72

const (
	sendSize  = 208
	sgeSize   = 16
	cacheLine = 64
)

func recvSize(sge uint32) uint32 { return 40 + sgeSize*sge }

// newRing makes a ring for at least n elements, at an offset that was never used
// before.
func (m *model) newRing(at fakeverbs.Seam, mem *fakeverbs.QueueMemory, n, size uint32) (*ring, abi.Mminfo, error) {
	at.Kernel = m.k
	q := &ring{Seam: at, stride: fakeverbs.RoundPow2(max(size, cacheLine)), mask: fakeverbs.RoundPow2(n+1) - 1}
	length := fakeverbs.RoundUp(data + int(q.mask+1)*int(q.stride))
	if m.offset == 0 {
		m.offset = int64(fakeverbs.PageSize)
	}
	mi := abi.Mminfo{Offset: uint64(m.offset), Size: uint32(length)}
	region, err := mem.Alloc(m.k, m.offset, length)
	if err != nil {
		return nil, mi, err
	}
	m.offset += int64(length)
	q.data = region.Bytes()[data:]
	copy(region.Bytes(), abi.Bytes(&abi.RxeQueueBuf{Log2ElemSize: uint32(bits.Len32(q.stride) - 1), IndexMask: q.mask}))
	if q.producer, err = region.Word(producer); err != nil {
		return nil, mi, syscall.EINVAL
	}
	if q.consumer, err = region.Word(consumer); err != nil {
		return nil, mi, syscall.EINVAL
	}
	return q, mi, nil
}

// at returns the element at an index, which may be any value.
func (q *ring) at(index uint32) []byte {
	return q.data[(index&q.mask)*q.stride:][:q.stride]
}

// head returns the oldest element of a queue that user space fills, or nil.
func (q *ring) head() []byte {
	if (q.producer.Load()-q.index)&q.mask == 0 {
		return nil
	}
	return q.at(q.index)
}

// count returns the number of elements of a queue that user space fills.
func (q *ring) count() uint32 { return (q.producer.Load() - q.index) & q.mask }

// drop removes the head.
func (q *ring) drop() {
	q.index = (q.index + 1) & q.mask
	q.consumer.Store(q.index)
}

// put adds an element to a queue that user space empties.
func (q *ring) put(element []byte) bool {
	if (q.index+1-q.ReadRecord(q.consumer))&q.mask == 0 {
		return false
	}
	late := q.WriteEntry(element)
	next := (q.index + 1) & q.mask
	if late != nil {
		q.producer.Store(next)
		late()
	}
	copy(q.at(q.index), element)
	q.index = next
	q.producer.Store(next)
	return true
}

// move copies the elements of q, from index first to before last, to the start of
// another ring, and leaves q empty.
func (q *ring) move(to *ring, first, last uint32) error {
	n := (last - first) & q.mask
	if n > to.mask {
		return syscall.EINVAL
	}
	for i := range n {
		copy(to.at(i), q.at(first + i)[:min(q.stride, to.stride)])
	}
	to.producer.Store(n)
	q.consumer.Store(last)
	return nil
}

func u64(b []byte, at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
func u32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
