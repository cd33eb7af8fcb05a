package rxe

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
)

var errReset = fmt.Errorf("%w: the QP is in RESET, receives can be posted from INIT on", syscall.EINVAL)

// Sizes of the fixed parts of the entries, and of an SGE behind them.
const (
	sendWQESize = 208
	recvWQESize = 40
	sgeSize     = 16
)

// maxMessage is the longest message there can be, in bytes.
const maxMessage = 1 << 31

// recvQueue is a receive queue, of one QP or shared.
type recvQueue struct {
	ring   *mmap.IndexedProducer[abi.RxeRecvWqe]
	maxSGE int
}

func newRecvQueue(memory queue, maxSGE uint32) (*recvQueue, error) {
	if err := memory.fits(recvWQESize + uint64(maxSGE)*sgeSize); err != nil {
		return nil, err
	}
	ring, err := mmap.NewIndexedProducer[abi.RxeRecvWqe](memory.region, memory.layout)
	if err != nil {
		return nil, err
	}
	return &recvQueue{ring: ring, maxSGE: int(maxSGE)}, nil
}

// post hands receives to the kernel with one store.
func (q *recvQueue) post(wrs []uverbs.RecvWR) (n int, err error) {
	slots, room, err := q.ring.Room(len(wrs))
	if err != nil {
		return 0, errCorrupt
	}
	for n < len(wrs) {
		wr := &wrs[n]
		sgl := wr.SGL // what is checked is what is used
		length, ok := lengthOfOne(sgl, q.maxSGE)
		if !ok {
			if length, err = lengthOf(sgl, q.maxSGE); err != nil {
				break
			}
		}
		if n == room {
			err = uverbs.ErrQueueFull
			break
		}
		e := slots.At(n)
		e.WrId, e.Reserved, e.Padding = wr.WRID, 0, 0
		putDMA(&e.Dma, length, sgl)
		n++
	}
	if n > 0 {
		q.ring.Publish(n)
	}
	return n, err
}

// lengthOfOne is lengthOf where nothing can be wrong, without a call.
func lengthOfOne(sgl []uverbs.SGE, maxSGE int) (n uint32, ok bool) {
	if len(sgl) == 1 && maxSGE > 0 && sgl[0].Length <= maxMessage {
		return sgl[0].Length, true
	}
	return 0, false
}

// lengthOf is the number of bytes that an SGL names.
func lengthOf(sgl []uverbs.SGE, maxSGE int) (uint32, error) {
	if len(sgl) > maxSGE {
		return 0, fmt.Errorf("%w: %d SGEs, the queue takes %d", uverbs.ErrInvalidWR, len(sgl), maxSGE)
	}
	var sum uint64
	for i := range sgl {
		sum += uint64(sgl[i].Length)
	}
	if sum > maxMessage {
		return 0, fmt.Errorf("%w: %d bytes in all, a message has at most %d", uverbs.ErrInvalidWR, sum, uint32(maxMessage))
	}
	return uint32(sum), nil
}

// putDMA tells of a message what it is made of: struct rxe_dma_info with the array
// of struct rxe_sge behind it, for which the queue has room.
func putDMA(dma *abi.RxeDmaInfo, length uint32, sgl []uverbs.SGE) {
	dma.Length, dma.Resid, dma.CurSge, dma.NumSge, dma.SgeOffset, dma.Reserved = length, length, 0, uint32(len(sgl)), 0, 0
	sges := sgesBehind(dma, len(sgl))
	for i := range sgl {
		sges[i] = abi.RxeSge{Addr: sgl[i].Addr, Length: sgl[i].Length, Lkey: sgl[i].LKey}
	}
}
