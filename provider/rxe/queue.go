package rxe

import (
	"fmt"
	"math"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
)

// Offsets in a queue's memory: struct rxe_queue_buf.
const (
	log2ElemSize  = 0
	indexMask     = 4
	producerIndex = 128
	consumerIndex = 256
	queueData     = 384
)

// maxLog2ElemSize is above every stride that a kernel uses; the largest entry is a send
// with 512 bytes of payload.
const maxLog2ElemSize = 20

type mapper interface {
	Map(offset int64, length int, prot mmap.Prot) (*mmap.Region, error)
}

// queue is a queue's memory and the layout from its header.
type queue struct {
	region *mmap.Region
	layout mmap.IndexedLayout
}

// mapQueue maps a queue that the kernel offers. The kernel accepts each offset only once.
func mapQueue(m mapper, mi *abi.Mminfo) (queue, error) {
	if mi.Size == 0 || mi.Offset > math.MaxInt64 || uint64(mi.Size) > math.MaxInt {
		return queue{}, fmt.Errorf("the kernel returned an invalid queue of %d bytes at offset %#x", mi.Size, mi.Offset)
	}
	region, err := m.Map(int64(mi.Offset), int(mi.Size), mmap.ProtRead|mmap.ProtWrite)
	if err != nil {
		return queue{}, err
	}
	return readHeader(region)
}

// readHeader reads the stride and the number of the entries from the queue's header. The
// kernel writes them only once. The rings check that the entries fit in the memory.
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
		return queue{}, fmt.Errorf("the kernel's queue has entries of invalid size 2^%d", shift)
	}
	return queue{region, mmap.IndexedLayout{
		Slots: mask.Load() + 1, Stride: 1 << shift,
		Data: queueData, Producer: producerIndex, Consumer: consumerIndex,
	}}, nil
}

// room is the number of entries that the queue can hold.
func (q queue) room() uint32 { return q.layout.Slots - 1 }

// fits returns an error if an entry has no room for a number of bytes.
func (q queue) fits(bytes uint64) error {
	if bytes > uint64(q.layout.Stride) {
		return fmt.Errorf("the kernel's queue has entries of %d bytes, want %d", q.layout.Stride, bytes)
	}
	return nil
}
