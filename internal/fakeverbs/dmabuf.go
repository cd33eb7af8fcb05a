package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// dmaBufAccess is what the core lets a region of a dma-buf have.
const dmaBufAccess = abi.IB_UVERBS_ACCESS_LOCAL_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_READ | abi.IB_UVERBS_ACCESS_REMOTE_WRITE |
	abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC | abi.IB_UVERBS_ACCESS_RELAXED_ORDERING

// regDMABuf takes any file of memory for a dma-buf. Its memory becomes what the device finds
// from iova on. Another process's descriptors mean nothing here.
func (k *Kernel) regDMABuf(r *ioctl.Request) error {
	if !k.Device.driver.DMABufs || k.User != Memory(&k.lent) {
		return syscall.EOPNOTSUPP
	}
	pd, _ := r.Value(abi.UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE)
	parent, err := k.Find("PD", uint32(pd))
	if err != nil {
		return err
	}
	offset, _ := r.Value(abi.UVERBS_ATTR_REG_DMABUF_MR_OFFSET)
	length, _ := r.Value(abi.UVERBS_ATTR_REG_DMABUF_MR_LENGTH)
	iova, _ := r.Value(abi.UVERBS_ATTR_REG_DMABUF_MR_IOVA)
	fd, _ := r.Value(abi.UVERBS_ATTR_REG_DMABUF_MR_FD)
	access, _ := r.Value(abi.UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS)
	if page := uint64(PageSize - 1); offset&page != iova&page || access&^dmaBufAccess != 0 {
		return syscall.EINVAL
	}
	if err := k.checkAccess(uint32(access)); err != nil {
		return err
	}
	start := offset &^ uint64(PageSize-1)
	region, err := exported(int(int32(fd)), start, offset-start, length)
	if err != nil {
		return err
	}
	mr := &MR{PD: uint32(pd), Start: iova, Length: length, Access: uint32(access)}
	k.lent.add(piece{iova - (offset - start), region, true})
	h, err := k.enlist(mr, r, func() { _ = region.Close() }, parent)
	if err != nil {
		return err
	}
	return answerMR(r, mr, h, abi.UVERBS_ATTR_REG_DMABUF_MR_HANDLE, abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY)
}

// queryMR is in the core for all drivers.
func (k *Kernel) queryMR(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_QUERY_MR_HANDLE)
	_, mr, err := find[*MR](k, "MR", uint32(h))
	if err != nil {
		return err
	}
	if err := Answer(r, abi.UVERBS_ATTR_QUERY_MR_RESP_LKEY, mr.Key); err != nil {
		return err
	}
	if err := Answer(r, abi.UVERBS_ATTR_QUERY_MR_RESP_RKEY, mr.Key); err != nil {
		return err
	}
	if err := Answer(r, abi.UVERBS_ATTR_QUERY_MR_RESP_LENGTH, mr.Length); err != nil {
		return err
	}
	if _, ok := r.Bytes(abi.UVERBS_ATTR_QUERY_MR_RESP_IOVA); !ok {
		return nil
	}
	return Answer(r, abi.UVERBS_ATTR_QUERY_MR_RESP_IOVA, mr.Start)
}
