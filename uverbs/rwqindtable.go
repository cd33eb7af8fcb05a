package uverbs

import (
	"math/bits"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// RWQIndTable is a table of WQs among which a QP deals out the packets it receives
// ([PD.CreateRSSQP]).
//
// C: struct ibv_rwq_ind_table
type RWQIndTable struct {
	object
	dev         *Device
	handle, num uint32
}

// CreateRWQIndTable makes a table of 1, 2, 4, … WQs. A WQ may stand in it more than once, and
// in several tables. [verbs.DeviceAttr] says how long a table may be.
//
// C: ibv_create_rwq_ind_table
func (d *Device) CreateRWQIndTable(wqs []*WQ) (*RWQIndTable, error) {
	if bits.OnesCount(uint(len(wqs))) != 1 {
		return nil, &Error{Op: "create", Object: "WQ table", Device: d.info.Name, Err: syscall.EINVAL, Hint: "a table has 1, 2, 4, … WQs"}
	}
	t := &RWQIndTable{dev: d}
	parents := []*object{&d.object}
	for _, w := range wqs {
		if w == nil {
			return nil, &Error{Op: "create", Object: "WQ table", Device: d.info.Name, Err: syscall.EINVAL, Hint: "a WQ is nil"}
		}
		parents = append(parents, &w.object)
	}
	if err := t.attach("WQ table", parents...); err != nil {
		return nil, err
	}
	if err := t.create(wqs); err != nil {
		t.detach()
		return nil, t.fail("create", err, createHint(err))
	}
	t.setNumber(t.handle)
	return t, nil
}

func (t *RWQIndTable) create(wqs []*WQ) error {
	var resp abi.IbUverbsExCreateRwqIndTableResp
	in := abi.IbUverbsExCreateRwqIndTable{LogIndTblSize: uint32(bits.TrailingZeros(uint(len(wqs))))}
	b := abi.Bytes(&in)
	for _, w := range wqs {
		b = append(b, abi.Bytes(&w.handle)...)
	}
	b = append(b, make([]byte, -len(b)&7)...)
	r := ioctl.WriteBytes(uint32(t.dev.info.Driver), ioctl.Extended(abi.IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL), b)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := r.Do(t.dev.file); err != nil {
		return err
	}
	t.handle, t.num = resp.IndTblHandle, resp.IndTblNum
	return nil
}

// Num is the table's number.
func (t *RWQIndTable) Num() uint32 { return t.num }

// Close destroys the table. QPs that use it must be closed before.
//
// C: ibv_destroy_rwq_ind_table
func (t *RWQIndTable) Close() error {
	if t == nil {
		return closeNil("RWQIndTable")
	}
	return t.close(func() error {
		r := t.dev.request(abi.UVERBS_OBJECT_RWQ_IND_TBL, abi.UVERBS_METHOD_RWQ_IND_TBL_DESTROY)
		defer r.Free()
		r.Handle(abi.UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE, t.handle)
		return r.Do(t.dev.file)
	}, nothing)
}
