package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// ObjectKind is a kind of the kernel's objects.
//
// C: enum uverbs_default_objects
type ObjectKind uint16

// The kinds that have handles.
const (
	ObjectPD          ObjectKind = abi.UVERBS_OBJECT_PD
	ObjectCQ          ObjectKind = abi.UVERBS_OBJECT_CQ
	ObjectQP          ObjectKind = abi.UVERBS_OBJECT_QP
	ObjectSRQ         ObjectKind = abi.UVERBS_OBJECT_SRQ
	ObjectAH          ObjectKind = abi.UVERBS_OBJECT_AH
	ObjectMR          ObjectKind = abi.UVERBS_OBJECT_MR
	ObjectMW          ObjectKind = abi.UVERBS_OBJECT_MW
	ObjectFlow        ObjectKind = abi.UVERBS_OBJECT_FLOW
	ObjectXRCD        ObjectKind = abi.UVERBS_OBJECT_XRCD
	ObjectRWQIndTable ObjectKind = abi.UVERBS_OBJECT_RWQ_IND_TBL
	ObjectWQ          ObjectKind = abi.UVERBS_OBJECT_WQ
	ObjectDM          ObjectKind = abi.UVERBS_OBJECT_DM
	ObjectCounters    ObjectKind = abi.UVERBS_OBJECT_COUNTERS
)

// Handles lists the kernel's handles of all objects of a kind that were made through this
// Device's descriptor, by whomever has it. It tells whether something was left open.
func (d *Device) Handles(kind ObjectKind) (handles []uint32, err error) {
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

func (d *Device) issueHandles(kind ObjectKind, handles []uint32) (n uint32, err error) {
	r := d.request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INFO_HANDLES)
	defer r.Free()
	r.Const(abi.UVERBS_ATTR_INFO_OBJECT_ID, uint64(kind))
	ioctl.Out(r, abi.UVERBS_ATTR_INFO_TOTAL_HANDLES, &n)
	ioctl.OutSlice(r, abi.UVERBS_ATTR_INFO_HANDLES_LIST, handles)
	err = r.Do(d.file)
	return n, err
}
