package uverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// RegMRFor is [PD.RegMR] of memory that the device accesses with the hints of a DMA handle. The
// handle must stay open until the region is closed.
//
// C: ibv_reg_mr_ex with IBV_REG_MR_MASK_DMAH
func (pd *PD) RegMRFor(b []byte, dmah *DMAH, access verbs.Access) (*MR, error) {
	refuse := func(why string) (*MR, error) {
		return nil, &Error{Op: "create", Object: "MR", Device: pd.dev.info.Name, Err: syscall.EINVAL, Hint: why}
	}
	switch {
	case len(b) == 0:
		return refuse("the memory is empty")
	case dmah == nil:
		return refuse("no DMA handle is named")
	}
	mr := &MR{pd: pd, data: b, length: len(b), iova: address(b), pin: pd.dev.file.pin(b), memory: &memory{file: pd.dev.file}}
	create := func(access verbs.Access) error {
		return mr.lending(func() error { return mr.issueFor(dmah, access) })
	}
	remedy := func(err error) (string, error) {
		if hint := mrHint(err, access, len(b)); hint != "" {
			return hint, err
		}
		return pd.dev.methodHint(err, "MR", "REG_MR"), err
	}
	if err := mr.made(access, create, remedy, &dmah.object); err != nil {
		pd.dev.file.unpin(mr.pin)
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
