package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// Handles lists the kernel's handles of all objects of a kind that were made through this
// Device's descriptor, by whomever has it. It tells whether something was left open.
func (d *Device) Handles(kind verbs.ObjectKind) (handles []uint32, err error) {
	const most = 65535 / 4 // a request has room for
	err = d.using("list the objects of", func() error {
		for room := 64; ; room *= 4 {
			handles = make([]uint32, min(room, most))
			n, err := d.issueHandles(kind, handles)
			if err != nil {
				return d.fail("list the objects of", err, "")
			}
			if int(n) < len(handles) || len(handles) == most { // the kernel counts no further than there is room
				handles = handles[:min(int(n), len(handles))]
				return nil
			}
		}
	})
	return handles, err
}

func (d *Device) issueHandles(kind verbs.ObjectKind, handles []uint32) (n uint32, err error) {
	r := d.request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INFO_HANDLES)
	defer r.Free()
	r.Const(abi.UVERBS_ATTR_INFO_OBJECT_ID, uint64(kind))
	ioctl.Out(r, abi.UVERBS_ATTR_INFO_TOTAL_HANDLES, &n)
	ioctl.OutSlice(r, abi.UVERBS_ATTR_INFO_HANDLES_LIST, handles)
	err = r.Do(d.file)
	return n, err
}
