package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// MRAttr is what the kernel has of a region.
type MRAttr struct {
	LKey, RKey uint32
	Length     uint64 // bytes
	IOVA       uint64 // the address by which work requests name the first byte
}

// Query asks the kernel what it has of the region.
//
// C: part of ibv_import_mr
func (mr *MR) Query() (attr MRAttr, err error) {
	err = mr.using("query", func() error {
		if mr.null {
			return mr.failNull("query")
		}
		if attr, err = mr.pd.dev.issueQueryMR(mr.handle); err != nil {
			return mr.fail("query", err, "")
		}
		return nil
	})
	return attr, err
}

func (d *Device) issueQueryMR(handle uint32) (attr MRAttr, err error) {
	r := d.request(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_QUERY_MR)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_QUERY_MR_HANDLE, handle)
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_MR_RESP_LKEY, &attr.LKey)
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_MR_RESP_RKEY, &attr.RKey)
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &attr.Length)
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_MR_RESP_IOVA, &attr.IOVA)
	err = r.Do(d.file)
	return attr, err
}
