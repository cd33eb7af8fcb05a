package fakeverbs

import (
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

	// The queues themselves, of the device's driver.
	SIW *SIWQP
	RXE *RXEQP

	k      *Kernel
	id     uint32
	state  uint8
	attr   abi.IbUverbsModifyQp
	groups []group
	srq    *SRQ
	memory memory
}

func (k *Kernel) createQP(r *ioctl.Request) error {
	value := func(id uint16) uint32 { v, _ := r.Value(id); return uint32(v) }
	parent, err := k.find("PD", value(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE))
	if err != nil {
		return err
	}
	sendCQ, send, err := find[*CQ](k, "CQ", value(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE))
	if err != nil {
		return err
	}
	recvCQ, recv, err := find[*CQ](k, "CQ", value(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE))
	if err != nil {
		return err
	}
	uses := []*object{parent, sendCQ, recvCQ}
	qp := &QP{k: k, SendCQ: send, RecvCQ: recv, Flags: uint64(value(abi.UVERBS_ATTR_CREATE_QP_FLAGS))}
	if h, ok := r.Value(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE); ok {
		o, srq, err := find[*SRQ](k, "SRQ", uint32(h))
		if err != nil {
			return err
		}
		uses, qp.srq = append(uses, o), srq
	}
	qp.SourceQPN = value(abi.UVERBS_ATTR_CREATE_QP_SOURCE_QPN)
	qp.Cookie, _ = r.Value(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE)
	qp.Type, _ = r.Value(abi.UVERBS_ATTR_CREATE_QP_TYPE)
	ioctl.Argument(r, abi.UVERBS_ATTR_CREATE_QP_CAP, &qp.Cap)
	qp.Num = k.freeQPN()
	qp.id = k.add("QP", qp, func() { k.model.destroyQP(qp); qp.memory.free() }, uses...)
	if err := k.model.createQP(qp, r); err != nil {
		_ = k.remove("QP", qp.id)
		return err
	}
	r.SetObject(abi.UVERBS_ATTR_CREATE_QP_HANDLE, qp.id)
	if err := answer(r, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, qp.Num); err != nil {
		return err
	}
	return answer(r, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, qp.Cap)
}

func (k *Kernel) freeQPN() uint32 {
	used := make(map[uint32]bool)
	for _, o := range k.objects {
		if qp, ok := o.body.(*QP); ok {
			used[qp.Num] = true
		}
	}
	n := max(1, k.FirstQPN)
	if k.driver == abi.RDMA_DRIVER_RXE {
		n = max(firstRXEQPN, n)
	}
	for used[n] {
		n++
	}
	return n
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
	if err := k.remove("QP", uint32(h)); err != nil {
		return err
	}
	return answer(r, abi.UVERBS_ATTR_DESTROY_QP_RESP, abi.IbUverbsDestroyQpResp{})
}

// postSend is the doorbell. It allocates nothing.
func (k *Kernel) postSend(r *ioctl.Request) error {
	var in abi.IbUverbsPostSend
	ioctl.Argument(r, abi.UVERBS_ATTR_CORE_IN, &in)
	return k.ringDoorbell(&in)
}

func (k *Kernel) ringDoorbell(in *abi.IbUverbsPostSend) error {
	o := k.objects[in.QpHandle]
	if o == nil {
		return syscall.EINVAL
	}
	qp, ok := o.body.(*QP)
	if !ok || in.WqeSize < 56 || in.WrCount != 0 {
		return syscall.EINVAL
	}
	return k.model.doorbell(qp)
}

// QueuePairs returns the queue pairs, lowest handle first.
func (k *Kernel) QueuePairs() []*QP { return bodies[*QP](k) }
