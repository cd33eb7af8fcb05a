package uverbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// RegDM registers length bytes of the device's memory, from offset on. Work requests and
// peers name them by addresses from 0 on: the access is ZeroBased, whether access says so or
// not. The program itself can't touch them through the region: [MR.Bytes] is nil.
//
// C: ibv_reg_dm_mr
func (pd *PD) RegDM(dm *DM, offset uint64, length int, access verbs.Access) (*MR, error) {
	refuse := func(why string) (*MR, error) {
		return nil, &Error{Op: "create", Object: "MR", Device: pd.dev.info.Name, Err: syscall.EINVAL, Hint: why}
	}
	switch {
	case dm == nil:
		return refuse("no device memory is named")
	case length <= 0 || offset > dm.length || uint64(length) > dm.length-offset:
		return refuse(fmt.Sprintf("%d bytes from %d on are not in %d bytes of device memory", length, offset, dm.length))
	}
	mr := &MR{pd: pd, length: length, memory: &memory{file: pd.dev.file}}
	create := func(access verbs.Access) error { return mr.issueDM(dm, offset, access) }
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
