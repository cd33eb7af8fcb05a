package rxe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

var errReset = fmt.Errorf("%w: the QP is in RESET; receives can be posted from INIT on", syscall.EINVAL)

// Sizes of the fixed parts of the entries, and of the SGEs that follow.
const (
	sendWQESize = 208
	recvWQESize = 40
	sgeSize     = 16
)

// maxMessage is the length of the longest possible message, in bytes.
const maxMessage = 1 << 31

// recvQueue is the receive queue of a QP or an SRQ.
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

// post queues receives and publishes them with one store.
func (q *recvQueue) post(wrs []verbs.RecvWR) (n int, err error) {
	slots, n, err := q.ring.Room(len(wrs))
	if err != nil {
		return 0, errCorrupt
	}
	batch := wrs[:n]
	for i := range batch {
		wr, e := &batch[i], slots.At(i)
		sgl := wr.SGL // read once: the slice that is checked is used
		e.WrId, e.Reserved, e.Padding = wr.WRID, 0, 0
		if isOne(sgl, q.maxSGE) {
			putLength(&e.Dma, sgl[0].Length, 1)
			putSGE(&e.Dma, 0, &sgl[0])
		} else if err = q.putSGL(&e.Dma, sgl); err != nil {
			n = i
			break
		}
	}
	if n < len(wrs) && err == nil {
		err = q.full(&wrs[n])
	}
	if n > 0 {
		q.ring.Publish(n)
	}
	return n, err
}

// full returns the error for a receive that has no room in the queue.
func (q *recvQueue) full(wr *verbs.RecvWR) error {
	if _, err := lengthOf(wr.SGL, q.maxSGE); err != nil {
		return err
	}
	return verbs.ErrQueueFull
}

// isOne reports whether an SGL is one SGE that needs no further check.
func isOne(sgl []verbs.SGE, maxSGE int) bool {
	return len(sgl) == 1 && maxSGE > 0 && sgl[0].Length <= maxMessage
}

// lengthOf returns the number of bytes in an SGL.
func lengthOf(sgl []verbs.SGE, maxSGE int) (uint32, error) {
	sum, err := driver.SumSGL(sgl, maxSGE)
	if err == nil && sum > maxMessage {
		err = fmt.Errorf("%w: %d bytes in all, but a message has at most %d", verbs.ErrInvalidWR, sum, uint32(maxMessage))
	}
	return uint32(sum), err
}

// putLength writes a message's length and number of SGEs.
func putLength(dma *abi.RxeDmaInfo, length uint32, sges int) {
	dma.Length, dma.Resid, dma.CurSge, dma.NumSge, dma.SgeOffset, dma.Reserved = length, length, 0, uint32(sges), 0, 0
}

// putSGL checks an SGL and writes it to an entry.
func (q *recvQueue) putSGL(dma *abi.RxeDmaInfo, sgl []verbs.SGE) error {
	length, err := lengthOf(sgl, q.maxSGE)
	if err != nil {
		return err
	}
	putLength(dma, length, len(sgl))
	for i := range sgl {
		putSGE(dma, i, &sgl[i])
	}
	return nil
}

// putSGE writes an element of the array of struct rxe_sge that follows struct rxe_dma_info.
// The caller has checked that the entry has room.
func putSGE(dma *abi.RxeDmaInfo, i int, s *verbs.SGE) {
	*sgeBehind(dma, i) = abi.RxeSge{Addr: s.Addr, Length: s.Length, Lkey: s.LKey}
}

// srq is a shared receive queue.
type srq struct {
	*recvQueue // nil when it was lost
	maxSGE     uint32
	region     *mmap.Region // of the queue
}

func (*rxeContext) CreateSRQ(r *driver.CreateSRQ) (driver.SRQ, error) {
	var resp abi.RxeCreateSrqResp
	if err := r.Do(driver.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	memory, err := mapQueue(r, &resp.Mi)
	if err != nil {
		return nil, err
	}
	r.MaxWR = memory.room()
	s := &srq{maxSGE: r.MaxSGE, region: memory.region}
	s.recvQueue, err = newRecvQueue(memory, s.maxSGE)
	return s, err
}

func (s *srq) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if s.recvQueue == nil {
		return 0, errLost
	}
	return s.post(wrs)
}

// Modify sets the limit, or replaces the queue by the kernel's new one, into which the
// kernel has copied the receives that were not used yet. The kernel writes the new queue's
// offset and size to memory of this process, whose address is in the command: struct
// mminfo.
func (s *srq) Modify(r *driver.ModifySRQ) error {
	var cmd abi.RxeModifySrqCmd
	if r.MaxWR == 0 {
		return r.Do(driver.UHW{In: abi.Bytes(&cmd)})
	}
	answer, err := r.Alloc(mminfoSize, nil)
	if err != nil {
		return err
	}
	cmd.MmapInfoAddr = answer.Addr()
	if err := r.Do(driver.UHW{In: abi.Bytes(&cmd)}); err != nil {
		return err
	}
	old := s.region
	s.recvQueue = nil
	memory, err := mapQueue(r, &abi.Mminfo{
		Offset: binary.NativeEndian.Uint64(answer.Bytes()),
		Size:   binary.NativeEndian.Uint32(answer.Bytes()[8:]),
	})
	if err != nil {
		return err
	}
	r.MaxWR, s.region = memory.room(), memory.region
	if s.recvQueue, err = newRecvQueue(memory, s.maxSGE); err != nil {
		return err
	}
	return errors.Join(r.Free(old), r.Free(answer))
}

const mminfoSize = 16
