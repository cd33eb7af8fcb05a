package fakeverbs

import (
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// IndTable is a table of WQs.
type IndTable struct{ WQs []*WQ }

// maxLogIndTable is IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE.
const maxLogIndTable = 0x0d

func (k *Kernel) createIndTable(r *ioctl.Request) error {
	in := request[abi.IbUverbsExCreateRwqIndTable](r)
	b, _ := r.Bytes(abi.UVERBS_ATTR_CORE_IN)
	switch b = b[8:]; {
	case in.CompMask != 0:
		return syscall.EOPNOTSUPP
	case in.LogIndTblSize > maxLogIndTable:
		return syscall.EINVAL
	case len(b) < 4<<in.LogIndTblSize:
		return syscall.ENOSPC
	case !IsZero(b[4<<in.LogIndTblSize:]):
		return syscall.EOPNOTSUPP
	}
	t := &IndTable{}
	var uses []*object
	for i := range 1 << in.LogIndTblSize {
		o, w, err := find[*WQ](k, "WQ", binary.NativeEndian.Uint32(b[4*i:]))
		if err != nil {
			return syscall.EINVAL
		}
		t.WQs, uses = append(t.WQs, w), append(uses, o)
	}
	h := k.Add("IND_TBL", t, nothing, uses...)
	return respond(r, abi.IbUverbsExCreateRwqIndTableResp{ResponseLength: 16, IndTblHandle: h, IndTblNum: 0x80 + h})
}

func (k *Kernel) destroyIndTable(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE)
	return k.Remove("IND_TBL", uint32(h))
}

func IsZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// findTable finds the objects that a queue pair without queues is made of: it deals out to
// the WQs of a table.
func (qp *QP) findTable(r *ioctl.Request, uses []*object) ([]*object, error) {
	var c abi.IbUverbsQpCap
	ioctl.Argument(r, abi.UVERBS_ATTR_CREATE_QP_CAP, &c)
	_, recv := r.Value(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE)
	_, srq := r.Value(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE)
	if recv || srq || c.MaxRecvWr != 0 || c.MaxRecvSge != 0 {
		return nil, syscall.EINVAL
	}
	o, table, err := FindIn[*IndTable](qp.k, "IND_TBL", r, abi.UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE)
	if err != nil {
		return nil, err
	}
	qp.Table, qp.queues = table, Gone{}
	return append(uses, o), nil
}
