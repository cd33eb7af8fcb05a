package fakeverbs

import (
	"math/bits"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// rxeRing is the kernel's side of a queue, as rxe_queue.h has it: the index that
// the kernel owns is private and only copied to the shared header.
type rxeRing struct {
	seam
	data               []byte
	mask, stride       uint32
	producer, consumer *atomic.Uint32
	index              uint32 // this side's
}

// Offsets in struct rxe_queue_buf.
const (
	rxeProducer = 128
	rxeConsumer = 256
	rxeData     = 384
)

// rxeCQESize is the kernel's own struct ib_wc, the larger half of the union that
// is an entry.
const rxeCQESize = 72

const (
	rxeSendSize  = 208
	rxeSGESize   = 16
	rxeCacheLine = 64
	rxeMostRecv  = 1024 // a receive of maxRXESGE, to the power of two
)

func rxeRecvSize(sge uint32) uint32 { return 40 + rxeSGESize*sge }

// newRing makes a ring for at least n elements, at an offset that was never used
// before.
func (m *rxe) newRing(at seam, mem *memory, n, size uint32) (*rxeRing, abi.Mminfo, error) {
	at.k = m.k
	q := &rxeRing{seam: at, stride: roundPow2(max(size, rxeCacheLine)), mask: roundPow2(n+1) - 1}
	length := roundUp(rxeData + int(q.mask+1)*int(q.stride))
	if m.offset == 0 {
		m.offset = int64(pageSize)
	}
	mi := abi.Mminfo{Offset: uint64(m.offset), Size: uint32(length)}
	region, err := mem.alloc(m.k, m.offset, length)
	if err != nil {
		return nil, mi, err
	}
	m.offset += int64(length)
	q.data = region.Bytes()[rxeData:]
	copy(region.Bytes(), abi.Bytes(&abi.RxeQueueBuf{Log2ElemSize: uint32(bits.Len32(q.stride) - 1), IndexMask: q.mask}))
	if q.producer, err = region.Word(rxeProducer); err != nil {
		return nil, mi, syscall.EINVAL
	}
	if q.consumer, err = region.Word(rxeConsumer); err != nil {
		return nil, mi, syscall.EINVAL
	}
	return q, mi, nil
}

// at is the element that index, whoever wrote it, leads to.
func (q *rxeRing) at(index uint32) []byte {
	return q.data[(index&q.mask)*q.stride:][:q.stride]
}

// head is the oldest element of a queue that user space fills, or nil.
func (q *rxeRing) head() []byte {
	if (q.producer.Load()-q.index)&q.mask == 0 {
		return nil
	}
	return q.at(q.index)
}

// count is how many elements a queue holds that user space fills.
func (q *rxeRing) count() uint32 { return (q.producer.Load() - q.index) & q.mask }

// drop is done with the head.
func (q *rxeRing) drop() {
	q.index = (q.index + 1) & q.mask
	q.consumer.Store(q.index)
}

// put adds an element to a queue that user space empties.
func (q *rxeRing) put(element []byte) bool {
	if (q.index+1-q.record(q.consumer))&q.mask == 0 {
		return false
	}
	late := q.write(element)
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

// move copies what is in q, from index first to before last, to the start of
// another ring, and leaves q empty.
func (q *rxeRing) move(to *rxeRing, first, last uint32) error {
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
