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
	for n < len(wrs) {
		if err = q.recv(&wrs[n]); err != nil {
			break
		}
		n++
	}
	if n > 0 {
		q.ring.Publish()
	}
	return n, err
}

func (q *recvQueue) recv(wr *uverbs.RecvWR) error {
	length, err := lengthOf(wr.SGL, q.maxSGE)
	if err != nil {
		return err
	}
	e, err := q.ring.Next()
	switch {
	case err != nil:
		return errCorrupt
	case e == nil:
		return uverbs.ErrQueueFull
	}
	*e = abi.RxeRecvWqe{WrId: wr.WRID, Dma: abi.RxeDmaInfo{Length: length, Resid: length, NumSge: uint32(len(wr.SGL))}}
	putSGL(q.ring.Tail(), wr.SGL)
	q.ring.Advance()
	return nil
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

// putSGL writes an array of struct rxe_sge.
func putSGL(to []byte, sgl []uverbs.SGE) {
	sges := sgesIn(to)
	for i := range sgl {
		sges[i] = abi.RxeSge{Addr: sgl[i].Addr, Length: sgl[i].Length, Lkey: sgl[i].LKey}
	}
}
