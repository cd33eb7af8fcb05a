package rxe

import (
	"fmt"
	"math"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
)

// Where the parts of a queue's memory stand: struct rxe_queue_buf.
const (
	log2ElemSize  = 0
	indexMask     = 4
	producerIndex = 128
	consumerIndex = 256
	queueData     = 384
)

// A stride above this is none that a kernel makes; the largest entry is a send
// with 512 bytes of payload.
const maxLog2ElemSize = 20

type mapper interface {
	Map(offset int64, length int, prot mmap.Prot) (*mmap.Region, error)
}

// queue is a queue's memory and what its header says of it.
type queue struct {
	region *mmap.Region
	layout mmap.IndexedLayout
}

// mapQueue maps a queue that the kernel offers. The kernel takes an offset once.
func mapQueue(m mapper, mi *abi.Mminfo) (queue, error) {
	if mi.Size == 0 || mi.Offset > math.MaxInt64 || uint64(mi.Size) > math.MaxInt {
		return queue{}, fmt.Errorf("rxe: the kernel offers a queue of %d bytes at offset %#x, which can't be", mi.Size, mi.Offset)
	}
	region, err := m.Map(int64(mi.Offset), int(mi.Size), mmap.ProtRead|mmap.ProtWrite)
	if err != nil {
		return queue{}, err
	}
	return readHeader(region)
}

// readHeader reads once what the kernel wrote once: the distance and the number
// of the entries. Both are believed only as far as the memory goes, which the
// rings check.
func readHeader(region *mmap.Region) (queue, error) {
	log2, err := region.Word(log2ElemSize)
	if err != nil {
		return queue{}, err
	}
	mask, err := region.Word(indexMask)
	if err != nil {
		return queue{}, err
	}
	shift := log2.Load()
	if shift > maxLog2ElemSize {
		return queue{}, fmt.Errorf("rxe: the kernel's queue has entries of 2^%d bytes, which can't be", shift)
	}
	return queue{region, mmap.IndexedLayout{
		Slots: mask.Load() + 1, Stride: 1 << shift,
		Data: queueData, Producer: producerIndex, Consumer: consumerIndex,
	}}, nil
}

// room is the number of entries that the queue can hold.
func (q queue) room() uint32 { return q.layout.Slots - 1 }

// fits checks that an entry has room for what is going to be written to it.
func (q queue) fits(bytes uint64) error {
	if bytes > uint64(q.layout.Stride) {
		return fmt.Errorf("rxe: the kernel's queue has entries of %d bytes, %d are needed", q.layout.Stride, bytes)
	}
	return nil
}
