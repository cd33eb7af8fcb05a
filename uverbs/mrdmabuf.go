package uverbs

import (
	"errors"
	"os"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// RegDMABuf registers memory that another device exports as a dma-buf, such as a GPU's:
// length bytes from offset on. buf is the dma-buf's descriptor, and may be closed
// afterwards. Work requests and peers name the memory by addresses from iova on, a value
// of the caller's choice that lies at the same place of its page as offset. The program
// itself can't touch it through the region: [MR.Bytes] is nil.
//
// Access is LocalWrite, the remote rights and RelaxedOrdering. Drivers that have no
// dma-bufs, siw and rxe among them, return an error that matches ErrNotSupported.
//
// C: ibv_reg_dmabuf_mr
func (pd *PD) RegDMABuf(buf *os.File, offset uint64, length int, iova uint64, access verbs.Access) (*MR, error) {
	if length <= 0 {
		return nil, &Error{Op: "create", Object: "MR", Device: pd.dev.info.Name, Err: syscall.EINVAL, Hint: "a region has one byte at least"}
	}
	c, err := buf.SyscallConn()
	if err != nil {
		return nil, &Error{Op: "create", Object: "MR", Device: pd.dev.info.Name, Err: err}
	}
	mr := &MR{pd: pd, length: length, iova: iova, memory: &memory{file: pd.dev.file}}
	err = mr.made(access, func(access verbs.Access) (failed error) {
		err := c.Control(func(fd uintptr) { failed = mr.issueDMABuf(int32(fd), offset, access) })
		return errors.Join(err, failed)
	}, func(err error) (string, error) { return dmaBufHint(err, offset, iova, access), err })
	if err != nil {
		return nil, err
	}
	return mr, nil
}

func (mr *MR) issueDMABuf(fd int32, offset uint64, access verbs.Access) error {
	r := mr.pd.dev.request(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_DMABUF_MR)
	defer r.Free()
	r.NewObject(abi.UVERBS_ATTR_REG_DMABUF_MR_HANDLE)
	r.Handle(abi.UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, mr.pd.handle)
	r.U64(abi.UVERBS_ATTR_REG_DMABUF_MR_OFFSET, offset)
	r.U64(abi.UVERBS_ATTR_REG_DMABUF_MR_LENGTH, uint64(mr.length))
	r.U64(abi.UVERBS_ATTR_REG_DMABUF_MR_IOVA, mr.iova)
	r.U32(abi.UVERBS_ATTR_REG_DMABUF_MR_FD, uint32(fd))
	r.Flags(abi.UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, uint32(access))
	ioctl.Out(r, abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &mr.lkey)
	ioctl.Out(r, abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &mr.rkey)
	if err := r.Do(mr.pd.dev.file); err != nil {
		return err
	}
	mr.handle = r.Created(abi.UVERBS_ATTR_REG_DMABUF_MR_HANDLE)
	return nil
}

// dmaBufAccess is what the kernel lets such a region have.
const dmaBufAccess = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic | verbs.AccessRelaxedOrdering

func dmaBufHint(err error, offset, iova uint64, access verbs.Access) string {
	switch page := uint64(os.Getpagesize() - 1); {
	case ioctl.Unsupported(err) && access&^dmaBufAccess == 0:
		return "the driver takes no dma-bufs"
	case !errors.Is(err, syscall.EINVAL):
		return ""
	case offset&page != iova&page:
		return "offset and iova lie at different places of their pages"
	case access&^dmaBufAccess != 0:
		return "such a region has LocalWrite, remote rights and RelaxedOrdering at most"
	}
	if hint := accessHint(access); hint != "" {
		return hint
	}
	return "the descriptor is no dma-buf's, or offset and length leave it"
}
