package fakeverbs

import (
	"net/netip"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// QP is the kernel's side of a queue pair.
type QP struct {
	Num            uint32
	Cookie         uint64
	SendCQ, RecvCQ *CQ
	Cap            abi.IbUverbsQpCap
	Type           uint64
	Flags          uint64
	SourceQPN      uint32
	PD             uint32    // handle of the PD
	Table          *IndTable // WQs among which it distributes packets, if it has no queues
	Hash           *Hash     // selects the WQ in Table
	WQ             *WQ       // WQ that it represents, or nil
	Untracked      bool      // netlink does not list it

	// Made holds the queues that the device's model created, or nil if it has none.
	Made Queues

	queues   Queues // Made, or Gone once the queue pair is destroyed
	Taken    []*Work
	k        *Kernel
	id       uint32
	CurState uint8
	Attrs    abi.IbUverbsModifyQp
	groups   []group
	SRQ      *SRQ
	target   *target // target queue pair of an XRC domain, or nil
	domain   *domain // the XRC domain, or nil
	Mem      QueueMemory
}

// Strips reports whether the device removes VLAN tags from received packets. A queue pair that represents
// a WQ has the setting of the WQ.
func (qp *QP) Strips() bool {
	qp.k.enter()
	defer qp.k.leave()
	if qp.WQ != nil {
		return qp.WQ.Flags&abi.IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING != 0
	}
	return qp.Flags&abi.IB_UVERBS_QP_CREATE_CVLAN_STRIPPING != 0
}

// NewQP adds qp to the opening, for models that need a queue pair without a request.
func NewQP(k *Kernel, qp *QP) *QP {
	qp.k = k
	return qp
}

// SetQueues sets the queues of the queue pair.
func (qp *QP) SetQueues(q Queues) { qp.Made, qp.queues = q, q }

// EndQueues removes the queues. Nothing is sent or received afterwards.
func (qp *QP) EndQueues() { qp.queues = Gone{} }

func (k *Kernel) createQP(r *ioctl.Request) error {
	value := func(id uint16) uint32 { v, _ := r.Value(id); return uint32(v) }
	qp := &QP{k: k, PD: value(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE), Flags: uint64(value(abi.UVERBS_ATTR_CREATE_QP_FLAGS))}
	qp.Type, _ = r.Value(abi.UVERBS_ATTR_CREATE_QP_TYPE)
	if qp.Type == abi.IB_UVERBS_QPT_XRC_TGT {
		return k.createTarget(r)
	}
	uses, err := qp.find(r)
	if err != nil {
		return err
	}
	qp.SourceQPN = value(abi.UVERBS_ATTR_CREATE_QP_SOURCE_QPN)
	qp.Cookie, _ = r.Value(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE)
	ioctl.Argument(r, abi.UVERBS_ATTR_CREATE_QP_CAP, &qp.Cap)
	if k.Device.isFull() {
		return syscall.ENOMEM
	}
	k.Device.Add(qp)
	qp.id = k.Add("QP", qp, qp.free, uses...)
	create := k.Model.CreateQP
	if qp.Table != nil {
		create = k.Model.(wqModel).CreateRSSQP
	}
	if err := create(qp, r); err != nil {
		_ = k.Remove("QP", qp.id)
		return err
	}
	r.SetObject(abi.UVERBS_ATTR_CREATE_QP_HANDLE, qp.id)
	if err := Answer(r, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, qp.Num); err != nil {
		return err
	}
	return Answer(r, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, qp.Cap)
}

// find looks up the objects that the queue pair uses.
func (qp *QP) find(r *ioctl.Request) (uses []*object, err error) {
	_, inDomain := r.Value(abi.UVERBS_ATTR_CREATE_QP_XRCD_HANDLE)
	_, fromSRQ := r.Value(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE)
	initiator := qp.Type == abi.IB_UVERBS_QPT_XRC_INI
	if inDomain || fromSRQ && initiator {
		return nil, syscall.EINVAL
	}
	parent, _, err := FindIn[PD](qp.k, "PD", r, abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE)
	if err != nil {
		return nil, err
	}
	if _, ok := r.Value(abi.UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE); ok {
		return qp.findTable(r, []*object{parent})
	}
	var cq, srq *object
	if cq, qp.SendCQ, err = FindIn[*CQ](qp.k, "CQ", r, abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE); err != nil {
		return nil, err
	}
	uses = []*object{parent, cq}
	if initiator {
		return uses, nil
	}
	if cq, qp.RecvCQ, err = FindIn[*CQ](qp.k, "CQ", r, abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE); err != nil {
		return nil, err
	}
	uses = append(uses, cq)
	if !fromSRQ {
		return uses, nil
	}
	if srq, qp.SRQ, err = FindIn[*SRQ](qp.k, "SRQ", r, abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE); err != nil {
		return nil, err
	}
	if qp.SRQ.CQ != nil { // it is an SRQ of an XRC domain
		return nil, syscall.EINVAL
	}
	return append(uses, srq), nil
}

// free ends the queue pair. Sends that have been taken but not completed never complete.
func (qp *QP) free() {
	qp.k.Device.remove(qp)
	qp.k.Model.DestroyQP(qp)
	qp.Taken, qp.CurState = nil, abi.IB_QPS_RESET
	qp.EndQueues()
	qp.Mem.Free()
	qp.k.Ring(qp)
}

func (k *Kernel) destroyQP(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_QP_HANDLE)
	_, qp, err := find[*QP](k, "QP", uint32(h))
	if err != nil {
		return err
	}
	if len(qp.groups) > 0 {
		return syscall.EBUSY
	}
	if err := k.Remove("QP", uint32(h)); err != nil {
		return err
	}
	return Answer(r, abi.UVERBS_ATTR_DESTROY_QP_RESP, abi.IbUverbsDestroyQpResp{
		EventsReported: k.async.reported(qp.Cookie, asyncEventSize),
	})
}

// mostAllocated is the size of the kernel's largest allocation.
const mostAllocated = 4 << 20

// postSend implements the doorbell. It does not allocate.
func (k *Kernel) postSend(r *ioctl.Request) error {
	var in abi.IbUverbsPostSend
	ioctl.Argument(r, abi.UVERBS_ATTR_CORE_IN, &in)
	return k.ringDoorbell(&in)
}

func (k *Kernel) ringDoorbell(in *abi.IbUverbsPostSend) error {
	if k.Cross != nil && !k.crossPostSend(in) {
		return nil
	}
	qp := k.qp(in.QpHandle)
	switch {
	case in.WqeSize < 56:
		return syscall.EINVAL
	case in.WqeSize > mostAllocated:
		return syscall.ENOMEM
	case in.WrCount != 0 || in.SgeCount != 0: // the doorbell has no work requests after the command
		return syscall.ENOSPC
	case qp == nil:
		return syscall.EINVAL
	}
	if err := k.Model.Doorbell(qp); err != nil {
		return err
	}
	k.Ring(qp)
	return nil
}

// qp returns the queue pair with a handle, or nil. It does not allocate.
func (k *Kernel) qp(handle uint32) *QP {
	if o := k.objects[handle]; o != nil {
		qp, _ := o.body.(*QP)
		return qp
	}
	return nil
}

func (k *Kernel) crossPostSend(in *abi.IbUverbsPostSend) bool {
	if qp := k.qp(in.QpHandle); qp != nil {
		return k.crossDoorbell("POST_SEND", abi.Bytes(in), qp.Num, k.Model.Waiting(qp))
	}
	return true
}

// Ring makes unlock call Rang for a queue pair.
func (k *Kernel) Ring(qp *QP) {
	if k.Rang != nil {
		k.rung = append(k.rung, qp)
	}
}

// unlock releases the lock and calls Rang.
func (k *Kernel) unlock() {
	if k.Tick != nil {
		k.Tick()
	}
	if len(k.rung) == 0 {
		k.mu.Unlock()
		return
	}
	if len(k.rung) == 1 { // the common case
		qp := k.rung[0]
		k.rung = k.rung[:0]
		k.mu.Unlock()
		k.Rang(qp)
		return
	}
	rung := k.rung
	k.rung = nil
	k.mu.Unlock()
	for _, qp := range rung {
		k.Rang(qp)
	}
}

// Kernel returns the opening that the queue pair belongs to.
func (qp *QP) Kernel() *Kernel { return qp.k }

// Attr returns the queue pair's attributes, including its state.
func (qp *QP) Attr() abi.IbUverbsModifyQp {
	qp.k.enter()
	defer qp.k.leave()
	a := qp.Attrs
	a.QpState = qp.CurState
	return a
}

// Depths returns how many READs and atomics the queue pair may have outstanding, and how many of its peer's.
func (qp *QP) Depths() (issued, served uint8) {
	qp.k.enter()
	defer qp.k.leave()
	return qp.Attrs.MaxRdAtomic, qp.Attrs.MaxDestRdAtomic
}

// IsIn reports whether the queue pair is attached to a multicast group.
func (qp *QP) IsIn(gid [16]byte) bool {
	qp.k.enter()
	defer qp.k.leave()
	return slices.ContainsFunc(qp.groups, func(g group) bool { return g.gid == gid })
}

// QueuePairs returns the queue pairs, lowest handle first.
func (k *Kernel) QueuePairs() []*QP { return bodies[*QP](k) }

// Gone implements Queues for a destroyed queue pair, whose memory may have been reused. A network that
// still refers to the queue pair finds empty queues.
type Gone struct{}

func (Gone) EnterError()                          {}
func (Gone) NextSend() (*Work, bool)              { return nil, false }
func (Gone) SendDone(*Work, uint32, bool)         {}
func (Gone) NextRecv() (*Recv, bool)              { return nil, false }
func (Gone) OldestRecv() (*Recv, bool)            { return nil, false }
func (Gone) RecvDone(*Recv, abi.IbUverbsWc, bool) {}
func (Gone) Carry(uint32) bool                    { return false }
func (Gone) Receive(uint32) bool                  { return false }

// group is a multicast group that a QP is attached to.
type group struct {
	gid [16]byte
	lid uint16
}

func (k *Kernel) attachMcast(r *ioctl.Request) error {
	in := request[abi.IbUverbsAttachMcast](r)
	_, qp, err := find[*QP](k, "QP", in.QpHandle)
	if err != nil {
		return err
	}
	g := group{in.Gid, in.Mlid}
	switch {
	case slices.Contains(qp.groups, g):
		return nil
	case !netip.AddrFrom16(in.Gid).Unmap().IsMulticast() || qp.Type != abi.IB_UVERBS_QPT_UD:
		return syscall.EINVAL
	}
	qp.groups = append(qp.groups, g)
	return nil
}

func (k *Kernel) detachMcast(r *ioctl.Request) error {
	in := request[abi.IbUverbsDetachMcast](r)
	_, qp, err := find[*QP](k, "QP", in.QpHandle)
	if err != nil {
		return err
	}
	i := slices.Index(qp.groups, group{in.Gid, in.Mlid})
	if i < 0 {
		return syscall.EINVAL
	}
	qp.groups = slices.Delete(qp.groups, i, i+1)
	return nil
}
