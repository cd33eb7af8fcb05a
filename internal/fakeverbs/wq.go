package fakeverbs

import (
	"encoding/binary"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// WQ is the kernel's side of a receive queue without a QP.
type WQ struct {
	Cookie        uint64
	Num           uint32
	MaxWR, MaxSGE uint32
	Flags         uint32
	State         uint32
	CQ            *CQ
	PD            uint32  // handle of the PD
	Queue         WQQueue // the model's queue, or nil if the model has none
	k             *Kernel
}

// wqModel is a driver that has WQs.
type wqModel interface {
	CreateWQ(*WQ, *ioctl.Request) error
	ModifyWQ(*WQ, *abi.IbUverbsExModifyWq, *ioctl.Request) error
	CreateRSSQP(*QP, *ioctl.Request) error
}

// WQQueue is a model's side of a WQ. The kernel's lock is held.
type WQQueue interface {
	// StandIn returns a queue pair that has only the WQ's receives.
	StandIn() *QP
	// EndWQ is called when the WQ is destroyed.
	EndWQ()
}

// States of a WQ.
const (
	WQReset = iota
	WQReady
	wqErr
)

const (
	WQAttrState = 1 << iota
	wqAttrCurState
	wqAttrFlags
)

// knownWQFlags holds the flags that the core knows.
const knownWQFlags = abi.IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING | abi.IB_UVERBS_WQ_FLAGS_SCATTER_FCS |
	abi.IB_UVERBS_WQ_FLAGS_DELAY_DROP | abi.IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING

// createWQ creates a WQ. It requires a CQ, as every driver does.
func (k *Kernel) createWQ(r *ioctl.Request) error {
	value := func(id uint16) uint32 { v, _ := r.Value(id); return uint32(v) }
	parent, _, err := FindIn[PD](k, "PD", r, abi.UVERBS_ATTR_CREATE_WQ_PD_HANDLE)
	if err != nil {
		return err
	}
	cq, body, err := FindIn[*CQ](k, "CQ", r, abi.UVERBS_ATTR_CREATE_WQ_CQ_HANDLE)
	if err != nil {
		return err
	}
	w := &WQ{k: k, CQ: body, PD: value(abi.UVERBS_ATTR_CREATE_WQ_PD_HANDLE), Flags: value(abi.UVERBS_ATTR_CREATE_WQ_FLAGS),
		MaxWR: value(abi.UVERBS_ATTR_CREATE_WQ_MAX_WR), MaxSGE: value(abi.UVERBS_ATTR_CREATE_WQ_MAX_SGE)}
	if w.Flags&^knownWQFlags != 0 || value(abi.UVERBS_ATTR_CREATE_WQ_TYPE) != abi.IB_UVERBS_WQT_RQ {
		return syscall.EINVAL
	}
	w.Cookie, _ = r.Value(abi.UVERBS_ATTR_CREATE_WQ_USER_HANDLE)
	h := k.Add("WQ", w, w.free, parent, cq)
	w.Num = 0x40 + h
	if err := k.Model.(wqModel).CreateWQ(w, r); err != nil {
		_ = k.Remove("WQ", h)
		return err
	}
	r.SetObject(abi.UVERBS_ATTR_CREATE_WQ_HANDLE, h)
	for _, a := range []struct {
		id uint16
		v  uint32
	}{
		{abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, w.MaxWR}, {abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, w.MaxSGE}, {abi.UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, w.Num},
	} {
		if err := Answer(r, a.id, a.v); err != nil {
			return err
		}
	}
	return nil
}

func (w *WQ) free() {
	if w.Queue != nil {
		w.Queue.EndWQ()
	}
}

func (k *Kernel) destroyWQ(r *ioctl.Request) error {
	_, w, err := FindIn[*WQ](k, "WQ", r, abi.UVERBS_ATTR_DESTROY_WQ_HANDLE)
	if err != nil {
		return err
	}
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_WQ_HANDLE)
	if err := k.Remove("WQ", uint32(h)); err != nil {
		return err
	}
	return Answer(r, abi.UVERBS_ATTR_DESTROY_WQ_RESP, k.async.reported(w.Cookie, asyncEventSize))
}

func (k *Kernel) modifyWQ(r *ioctl.Request) error {
	in := request[abi.IbUverbsExModifyWq](r)
	if in.AttrMask == 0 || in.AttrMask > WQAttrState|wqAttrCurState|wqAttrFlags {
		return syscall.EINVAL
	}
	_, w, err := find[*WQ](k, "WQ", in.WqHandle)
	if err != nil || in.AttrMask&wqAttrCurState != 0 && in.CurrWqState > wqErr || in.AttrMask&WQAttrState != 0 && in.WqState > wqErr {
		return syscall.EINVAL
	}
	return k.Model.(wqModel).ModifyWQ(w, &in, r)
}

func (Bare) CreateWQ(w *WQ, _ *ioctl.Request) error {
	if w.MaxWR == 0 || w.MaxSGE > BareLimits().Device.MaxSge {
		return syscall.EINVAL
	}
	return nil
}

// ModifyWQ permits the transitions of the specification.
func (Bare) ModifyWQ(w *WQ, in *abi.IbUverbsExModifyWq, _ *ioctl.Request) error {
	to := w.State
	if in.AttrMask&WQAttrState != 0 {
		to = in.WqState
	}
	switch {
	case in.AttrMask&wqAttrCurState != 0 && in.CurrWqState != w.State, w.State == wqErr && to == WQReady:
		return syscall.EINVAL
	case in.AttrMask&wqAttrFlags != 0 && in.FlagsMask&^abi.IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING != 0:
		return syscall.EOPNOTSUPP
	}
	if in.AttrMask&wqAttrFlags != 0 {
		w.Flags = w.Flags&^in.FlagsMask | in.Flags&in.FlagsMask
	}
	w.State = to
	return nil
}

func (Bare) CreateRSSQP(qp *QP, _ *ioctl.Request) error {
	if qp.Type != abi.IB_UVERBS_QPT_RAW_PACKET && qp.Type != abi.IB_UVERBS_QPT_UD {
		return syscall.EOPNOTSUPP
	}
	return nil
}

// Raise raises an asynchronous event of the WQ, an IB_EVENT_ number.
func (w *WQ) Raise(event uint32) { w.k.Async(w.Cookie, event) }

// WQs returns the WQs, lowest handle first.
func (k *Kernel) WQs() []*WQ { return bodies[*WQ](k) }

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

// IsZero reports whether all bytes are 0.
func IsZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// findTable looks up the objects of a queue pair without queues, which distributes packets among the WQs of
// a table.
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

// Hash holds the parameters by which an RSS queue pair selects a WQ.
type Hash struct {
	Fields uint64
	Key    []byte
}

const (
	HashToeplitz = 1
	hashSrcIPv4  = 1 << 0
	hashDstIPv4  = 1 << 1
	hashSrcIPv6  = 1 << 2
	hashDstIPv6  = 1 << 3
	hashSrcTCP   = 1 << 4
	hashDstTCP   = 1 << 5
	hashSrcUDP   = 1 << 6
	hashDstUDP   = 1 << 7
	HashIPv4     = hashSrcIPv4 | hashDstIPv4
	HashIPv6     = hashSrcIPv6 | hashDstIPv6
	HashTCP      = hashSrcTCP | hashDstTCP
	HashUDP      = hashSrcUDP | hashDstUDP
	HashFields   = HashIPv4 | HashIPv6 | HashTCP | HashUDP
)

// Deal returns the queue pair that represents the WQ of a frame, or nil.
func (qp *QP) Deal(f *Frame) *QP {
	if w := qp.Table.WQs[qp.Place(f)]; w.Queue != nil {
		return w.Queue.StandIn()
	}
	return nil
}

// Place returns the index in the table for a frame.
func (qp *QP) Place(f *Frame) int {
	return int(toeplitz(qp.Hash.Key, qp.Hash.input(f)) % uint32(len(qp.Table.WQs)))
}

// input returns the hashed fields in the order of Microsoft's RSS, which has sources before destinations and
// addresses before ports.
func (h *Hash) input(f *Frame) (b []byte) {
	part := func(field uint64, header uint32, from, to int) {
		if v := f.headers[header]; h.Fields&field != 0 && v != nil {
			b = append(b, v[from:to]...)
		}
	}
	part(hashSrcIPv4, FlowIPv4, 0, 4)
	part(hashDstIPv4, FlowIPv4, 4, 8)
	part(hashSrcIPv6, FlowIPv6, 0, 16)
	part(hashDstIPv6, FlowIPv6, 16, 32)
	part(hashSrcTCP, FlowTCP, 2, 4)
	part(hashDstTCP, FlowTCP, 0, 2)
	part(hashSrcUDP, FlowUDP, 2, 4)
	part(hashDstUDP, FlowUDP, 0, 2)
	return b
}

// toeplitz returns the Toeplitz hash: the XOR, over all set bits of the input, of the 32 bits of the key from
// that position on.
func toeplitz(key, input []byte) (sum uint32) {
	key = append(slices.Clone(key), 0)
	window := uint32(key[0])<<24 | uint32(key[1])<<16 | uint32(key[2])<<8 | uint32(key[3])
	for i, v := range input {
		next := key[i+4]
		for bit := 7; bit >= 0; bit-- {
			if v>>bit&1 != 0 {
				sum ^= window
			}
			window = window<<1 | uint32(next>>bit&1)
		}
	}
	return sum
}
