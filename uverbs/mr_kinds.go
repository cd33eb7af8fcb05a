package uverbs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// RegDM registers length bytes of device memory at an offset. Work requests and peers address
// them from 0 on: RegDM adds AccessZeroBased to access. The memory is not mapped into the
// process, so [MR.Bytes] is nil.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_reg_dm_mr
func (pd *PD) RegDM(dm *DM, offset, length int, access verbs.Access) (*MR, error) {
	refuse := func(why string) (*MR, error) {
		return nil, &verbs.Error{Op: "create", Object: "MR", Device: pd.device().info.Name, Err: syscall.EINVAL, Hint: why}
	}
	switch {
	case dm == nil:
		return refuse("no device memory given")
	case length <= 0 || offset < 0 || offset > dm.length || length > dm.length-offset:
		return refuse(fmt.Sprintf("%d bytes at offset %d don't fit in %d bytes of device memory", length, offset, dm.length))
	}
	mr := &MR{pd: pd, length: length, memory: &memory{file: pd.device().file}}
	create := func(access verbs.Access) error { return mr.issueDM(dm, uint64(offset), access) }
	remedy := func(err error) (string, error) {
		if errors.Is(err, syscall.EINVAL) {
			return accessHint(access), err
		}
		return createHint(err), err
	}
	if err := mr.made(access|verbs.AccessZeroBased, create, remedy, &dm.object); err != nil {
		return nil, err
	}
	return mr, nil
}

func (mr *MR) issueDM(dm *DM, offset uint64, access verbs.Access) error {
	r := mr.pd.dev.request(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_DM_MR_REG)
	defer r.Free()
	r.NewObject(abi.UVERBS_ATTR_REG_DM_MR_HANDLE)
	r.U64(abi.UVERBS_ATTR_REG_DM_MR_OFFSET, offset)
	r.U64(abi.UVERBS_ATTR_REG_DM_MR_LENGTH, uint64(mr.length))
	r.Handle(abi.UVERBS_ATTR_REG_DM_MR_PD_HANDLE, mr.pd.handle)
	r.Flags(abi.UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, uint32(access))
	r.Handle(abi.UVERBS_ATTR_REG_DM_MR_DM_HANDLE, dm.handle)
	ioctl.Out(r, abi.UVERBS_ATTR_REG_DM_MR_RESP_LKEY, &mr.lkey)
	ioctl.Out(r, abi.UVERBS_ATTR_REG_DM_MR_RESP_RKEY, &mr.rkey)
	if err := r.Do(mr.pd.dev.file); err != nil {
		return err
	}
	mr.handle = r.Created(abi.UVERBS_ATTR_REG_DM_MR_HANDLE)
	return nil
}

// RegDMABuf registers length bytes at an offset of a dma-buf, which is memory that another device
// exports, such as a GPU. buf is the dma-buf's file and may be closed afterwards. Work requests
// and peers address the memory from iova on. The caller chooses iova; its offset in its page must
// be that of offset. The memory is not mapped into the process, so [MR.Bytes] is nil.
//
// access may have LocalWrite, the remote rights and RelaxedOrdering. If the driver does not
// support dma-bufs, like siw and rxe, the error matches ErrNotSupported.
//
// C: ibv_reg_dmabuf_mr
func (pd *PD) RegDMABuf(buf *os.File, offset uint64, length int, iova uint64, access verbs.Access) (*MR, error) {
	if length <= 0 {
		return nil, &verbs.Error{Op: "create", Object: "MR", Device: pd.device().info.Name, Err: syscall.EINVAL, Hint: "a region has at least one byte"}
	}
	c, err := buf.SyscallConn()
	if err != nil {
		return nil, &verbs.Error{Op: "create", Object: "MR", Device: pd.device().info.Name, Err: err, Hint: "buf is nil"}
	}
	mr := &MR{pd: pd, length: length, iova: iova, memory: &memory{file: pd.device().file}}
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

// dmaBufAccess has the access flags that the kernel allows for dma-bufs.
const dmaBufAccess = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic | verbs.AccessRelaxedOrdering

func dmaBufHint(err error, offset, iova uint64, access verbs.Access) string {
	switch page := uint64(os.Getpagesize() - 1); {
	case ioctl.Unsupported(err) && access&^dmaBufAccess == 0:
		return "the driver does not support dma-bufs"
	case !errors.Is(err, syscall.EINVAL):
		return ""
	case offset&page != iova&page:
		return "offset and iova have different offsets within a page"
	case access&^dmaBufAccess != 0:
		return "such a region can have only LocalWrite, remote rights and RelaxedOrdering"
	}
	if hint := accessHint(access); hint != "" {
		return hint
	}
	return "the descriptor is not a dma-buf, or offset and length exceed it"
}

// RegMRFor is like [PD.RegMR], but the device accesses the memory with the hints of a DMA handle.
// The handle must stay open until the region is closed.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_reg_mr_ex with IBV_REG_MR_MASK_DMAH
func (pd *PD) RegMRFor(b []byte, dmah *DMAH, access verbs.Access) (*MR, error) {
	refuse := func(why string) (*MR, error) {
		return nil, &verbs.Error{Op: "create", Object: "MR", Device: pd.device().info.Name, Err: syscall.EINVAL, Hint: why}
	}
	switch {
	case len(b) == 0:
		return refuse("the memory is empty")
	case dmah == nil:
		return refuse("no DMA handle given")
	}
	mr := &MR{pd: pd, data: b, length: len(b), iova: address(b), pin: pd.device().file.pin(b), memory: &memory{file: pd.device().file}}
	create := func(access verbs.Access) error {
		return mr.lending(func() error { return mr.issueFor(dmah, access) })
	}
	remedy := func(err error) (string, error) {
		if hint := pd.device().mrHint(err, access, len(b)); hint != "" {
			return hint, err
		}
		return pd.device().methodHint(err, "MR", "REG_MR"), err
	}
	if err := mr.made(access, create, remedy, &dmah.object); err != nil {
		pd.device().file.unpin(mr.pin)
		return nil, err
	}
	return mr, nil
}

func (mr *MR) issueFor(dmah *DMAH, access verbs.Access) error {
	r := mr.pd.dev.request(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_MR)
	defer r.Free()
	r.NewObject(abi.UVERBS_ATTR_REG_MR_HANDLE)
	r.Handle(abi.UVERBS_ATTR_REG_MR_PD_HANDLE, mr.pd.handle)
	r.Handle(abi.UVERBS_ATTR_REG_MR_DMA_HANDLE, dmah.handle)
	r.U64(abi.UVERBS_ATTR_REG_MR_IOVA, mr.iova)
	r.U64(abi.UVERBS_ATTR_REG_MR_ADDR, mr.iova)
	r.U64(abi.UVERBS_ATTR_REG_MR_LENGTH, uint64(mr.length))
	r.Flags(abi.UVERBS_ATTR_REG_MR_ACCESS_FLAGS, uint32(access))
	ioctl.Out(r, abi.UVERBS_ATTR_REG_MR_RESP_LKEY, &mr.lkey)
	ioctl.Out(r, abi.UVERBS_ATTR_REG_MR_RESP_RKEY, &mr.rkey)
	if err := r.Do(mr.pd.dev.file); err != nil {
		return err
	}
	mr.handle = r.Created(abi.UVERBS_ATTR_REG_MR_HANDLE)
	return nil
}

// RegImplicitMR registers the whole address space of the process, including memory that is mapped
// later. No pages are pinned: the device faults them in when it accesses them. Work requests and
// peers name memory by its address, so offsets of [MR.SGE] are addresses. [MR.Bytes] is nil. The
// caller must keep memory in place while work requests name it, such as a mapping, or a slice held
// by a runtime.Pinner. The device can write to the region, but a provider that writes short
// messages itself, such as mlx5's, can't.
//
// RegImplicitMR adds AccessOnDemand to access. If the device lacks [verbs.ODPImplicit], as rxe
// does, the error matches ErrNotSupported.
//
// C: ibv_reg_mr of address NULL and length SIZE_MAX with IBV_ACCESS_ON_DEMAND
func (pd *PD) RegImplicitMR(access verbs.Access) (*MR, error) {
	mr := &MR{pd: pd, length: math.MaxInt}
	access |= verbs.AccessOnDemand
	err := mr.made(access, mr.create, func(err error) (string, error) {
		if hint, err := pd.device().lack(err, access); hint != "" {
			return hint, err
		}
		if a, failed := pd.device().Attr(); failed == nil && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP)) && a.ODP.General&verbs.ODPImplicit == 0 {
			return "the device can't page a whole address space (DeviceAttr.ODP)", fmt.Errorf("%w (%w)", verbs.ErrNotSupported, err)
		}
		return pd.device().mrHint(err, access, 0), err
	})
	if err != nil {
		return nil, err
	}
	return mr, nil
}

// AllocNullMR returns a region without memory. Data written to it is discarded, and reads return
// zeros. Use its SGEs for a part of a message that is not needed, or that is zeros. Every offset and
// length is valid. It is for local SGEs only, so [MR.RKey] is 0. The kernel has no object for it, so
// [MR.Handle] is 0, and [MR.Query] and [MR.Rereg] return EINVAL.
//
// mlx5 devices support it, on kernels that report the device's null key. For others the error matches
// ErrNotSupported.
//
// C: ibv_alloc_null_mr
func (pd *PD) AllocNullMR() (*MR, error) {
	mr := &MR{pd: pd, memory: &memory{file: pd.device().file}, length: math.MaxInt, null: true}
	if err := mr.attach("MR", &pd.object); err != nil {
		return nil, err
	}
	if p, ok := pd.device().provider.(driver.NullKeyer); ok {
		if mr.lkey, ok = p.NullKey(); ok {
			mr.createdUnnamed(mr)
			return mr, nil
		}
	}
	mr.detach()
	return nil, mr.fail("create", verbs.ErrNotSupported, "the device or its kernel has no null key")
}

// failNull returns the error of an operation that needs an object of the kernel.
func (mr *MR) failNull(op string) error {
	return mr.fail(op, syscall.EINVAL, "it is a null region, which the kernel does not know")
}
