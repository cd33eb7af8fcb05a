package rxe

import (
	"encoding/binary"
	"errors"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

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
