package fakeverbs

import (
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// CQ is the kernel's side of a completion queue.
type CQ struct {
	Moderation abi.IbUverbsCqModeration
	Cookie     uint64
	Entries    uint32
	Flags      uint64

	// Queue is the queue itself, as the device's model keeps it; nil if it keeps none.
	Queue CQQueue

	k       *Kernel
	ID      uint32
	channel *channel
	overrun bool
	events  int
	Mem     QueueMemory
}

// CQQueue is a model's side of a completion queue. The kernel's lock is held.
type CQQueue interface {
	// IsArmed reports whether user space asked for an event.
	IsArmed() bool
	// Free ends the queue, with its CQ.
	Free()
}

// NewCQ makes cq a CQ of the opening, for models that need one which no request made.
func NewCQ(k *Kernel, cq *CQ) *CQ {
	cq.k = k
	return cq
}

// Kernel is the opening that the CQ belongs to.
func (cq *CQ) Kernel() *Kernel { return cq.k }

// HasChannel reports whether the CQ has a completion channel.
func (cq *CQ) HasChannel() bool { return cq.channel != nil }

func (k *Kernel) createCQ(r *ioctl.Request) error {
	n, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_CQE)
	vector, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR)
	if n == 0 || vector >= CompVectors || !k.context {
		return syscall.EINVAL
	}
	cq := &CQ{k: k, Entries: RoundPow2(uint32(n))}
	cq.Flags, _ = r.Value(abi.UVERBS_ATTR_CREATE_CQ_FLAGS)
	cq.Cookie, _ = r.Value(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE)
	if fd, ok := r.Value(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL); ok {
		if cq.channel = k.files[int32(fd)]; cq.channel == nil {
			return syscall.EBADF
		}
	}
	cq.ID = k.Add("CQ", cq, cq.free)
	if err := k.Model.CreateCQ(cq, r); err != nil {
		_ = k.Remove("CQ", cq.ID)
		return err
	}
	r.SetObject(abi.UVERBS_ATTR_CREATE_CQ_HANDLE, cq.ID)
	return Answer(r, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, cq.Entries)
}

func (cq *CQ) free() {
	if cq.Queue != nil {
		cq.Queue.Free()
	}
	cq.Mem.Free()
}

func (k *Kernel) destroyCQ(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE)
	_, cq, err := find[*CQ](k, "CQ", uint32(h))
	if err != nil {
		return err
	}
	if err := k.Remove("CQ", uint32(h)); err != nil {
		return err
	}
	return Answer(r, abi.UVERBS_ATTR_DESTROY_CQ_RESP, abi.IbUverbsDestroyCqResp{
		CompEventsReported:  cq.channel.reported(cq.Cookie, compEventSize),
		AsyncEventsReported: k.async.reported(cq.Cookie, asyncEventSize),
	})
}

// CQs returns the completion queues, lowest handle first.
func (k *Kernel) CQs() []*CQ { return bodies[*CQ](k) }

// resizeCQ needs no room checked here: the driver knows what is in the queue.
func (k *Kernel) resizeCQ(r *ioctl.Request) error {
	in := request[abi.IbUverbsResizeCq](r)
	_, cq, err := find[*CQ](k, "CQ", in.CqHandle)
	if err != nil {
		return err
	}
	if err := k.Model.ResizeCQ(cq, in.Cqe, r); err != nil {
		return err
	}
	return respond(r, abi.IbUverbsResizeCqResp{Cqe: cq.Entries})
}

// reqNotifyCQ allocates nothing.
func (k *Kernel) reqNotifyCQ(r *ioctl.Request) error {
	var in abi.IbUverbsReqNotifyCq
	ioctl.Argument(r, abi.UVERBS_ATTR_CORE_IN, &in)
	return k.armCQ(&in)
}

func (k *Kernel) armCQ(in *abi.IbUverbsReqNotifyCq) error {
	if k.Cross != nil && !k.crossDoorbell("REQ_NOTIFY_CQ", abi.Bytes(in), in.CqHandle, 0) {
		return nil
	}
	_, cq, err := find[*CQ](k, "CQ", in.CqHandle)
	if err != nil {
		return err
	}
	if in.SolicitedOnly != 0 {
		return k.Model.Notify(cq, abi.IB_CQ_SOLICITED)
	}
	return k.Model.Notify(cq, abi.IB_CQ_NEXT_COMP)
}

// Armed reports whether user space asked for an event.
func (cq *CQ) Armed() bool {
	cq.k.mu.Lock()
	defer cq.k.mu.Unlock()
	return cq.Queue != nil && cq.Queue.IsArmed()
}

// Awaited tells whether somebody waits for the events of the CQ's channel.
func (cq *CQ) Awaited() bool { return cq.channel.readers.Load() > 0 }

// Overflow tells once of a lost completion: nobody may be reading.
func (cq *CQ) Overflow() {
	if !cq.overrun {
		cq.overrun = true
		cq.k.Raise(cq.Cookie, abi.IB_EVENT_CQ_ERR)
	}
}

// Event raises an event whether one was asked for or not.
func (cq *CQ) Event() {
	cq.k.mu.Lock()
	defer cq.k.mu.Unlock()
	cq.RaiseEvent()
}

// Events is how many events the CQ has raised.
func (cq *CQ) Events() int {
	cq.k.mu.Lock()
	defer cq.k.mu.Unlock()
	return cq.events
}

// EventBytes delivers any bytes to the channel.
func (cq *CQ) EventBytes(b []byte) {
	cq.k.mu.Lock()
	defer cq.k.mu.Unlock()
	cq.channel.send(b)
}

func (cq *CQ) RaiseEvent() {
	cq.events++
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], cq.Cookie)
	cq.channel.send(b[:])
}

func (k *Kernel) Raise(element uint64, typ uint32) {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:], element)
	binary.NativeEndian.PutUint32(b[8:], typ)
	k.async.send(b[:])
}

func RoundPow2(n uint32) uint32 {
	p := uint32(1)
	for p < n && p < 1<<31 {
		p <<= 1
	}
	return p
}

// modifyCQ changes when a CQ raises events.
func (k *Kernel) modifyCQ(r *ioctl.Request) error {
	in := request[abi.IbUverbsExModifyCq](r)
	switch {
	case in.AttrMask == 0, in.Reserved != 0:
		return syscall.EINVAL
	case in.AttrMask > 1:
		return syscall.EOPNOTSUPP
	}
	_, cq, err := find[*CQ](k, "CQ", in.CqHandle)
	most := &k.Device.Limits.Moderation
	if err != nil || in.Attr.CqCount > most.MaxCqModerationCount || in.Attr.CqPeriod > most.MaxCqModerationPeriod {
		return syscall.EINVAL
	}
	cq.Moderation = in.Attr
	return nil
}
