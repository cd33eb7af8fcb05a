package fakeverbs

import (
	"encoding/binary"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// CQ is the kernel's side of a completion queue.
type CQ struct {
	Cookie  uint64
	Entries uint32

	k       *Kernel
	id      uint32
	channel *channel
	overrun bool
	ring    *mmap.FlagProducer[abi.SiwCqe]
	notify  *atomic.Uint32
	memory  memory
}

func (k *Kernel) createCQ(r *ioctl.Request) error {
	n, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_CQE)
	vector, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR)
	if n == 0 || vector >= CompVectors || !k.context {
		return syscall.EINVAL
	}
	cq := &CQ{k: k, Entries: roundPow2(uint32(n))}
	cq.Cookie, _ = r.Value(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE)
	if fd, ok := r.Value(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL); ok {
		if cq.channel = k.files[int32(fd)]; cq.channel == nil {
			return syscall.EBADF
		}
	}
	cq.id = k.add("CQ", cq, func() { cq.memory.free() })
	if err := k.model.createCQ(cq, r); err != nil {
		_ = k.remove("CQ", cq.id)
		return err
	}
	r.SetObject(abi.UVERBS_ATTR_CREATE_CQ_HANDLE, cq.id)
	return answer(r, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, cq.Entries)
}

func (k *Kernel) destroyCQ(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE)
	if err := k.remove("CQ", uint32(h)); err != nil {
		return err
	}
	return answer(r, abi.UVERBS_ATTR_DESTROY_CQ_RESP, abi.IbUverbsDestroyCqResp{})
}

// CQs returns the completion queues, lowest handle first.
func (k *Kernel) CQs() []*CQ { return bodies[*CQ](k) }

// Complete writes an entry, of which the caller fills all but Flags, and raises
// an event if user space asked for one. It reports whether there was room; a CQ
// that overflows says so by an asynchronous event.
func (cq *CQ) Complete(e abi.SiwCqe) bool {
	cq.k.mu.Lock()
	defer cq.k.mu.Unlock()
	return cq.complete(e)
}

func (cq *CQ) complete(e abi.SiwCqe) bool {
	slot := cq.ring.Next()
	if slot == nil {
		if !cq.overrun { // once: nobody may be reading
			cq.overrun = true
			cq.k.raise(cq.Cookie, abi.IB_EVENT_CQ_ERR)
		}
		return false
	}
	slot.Id, slot.Bytes, slot.ImmData, slot.QpId = e.Id, e.Bytes, e.ImmData, e.QpId
	cq.ring.Publish(mmap.Valid | uint32(e.Opcode)<<8 | uint32(e.Status)<<16)
	if cq.notify.Load()&abi.SIW_NOTIFY_NEXT_COMPLETION != 0 {
		cq.notify.Store(abi.SIW_NOTIFY_NOT)
		cq.event()
	}
	return true
}

// Armed tells whether user space asked for an event.
func (cq *CQ) Armed() bool { return cq.notify.Load() != abi.SIW_NOTIFY_NOT }

// Event raises an event whether one was asked for or not.
func (cq *CQ) Event() {
	cq.k.mu.Lock()
	defer cq.k.mu.Unlock()
	cq.event()
}

// EventBytes delivers any bytes to the channel.
func (cq *CQ) EventBytes(b []byte) {
	cq.k.mu.Lock()
	defer cq.k.mu.Unlock()
	cq.channel.send(b)
}

func (cq *CQ) event() {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], cq.Cookie)
	cq.channel.send(b[:])
}

func (k *Kernel) raise(element uint64, typ uint32) {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:], element)
	binary.NativeEndian.PutUint32(b[8:], typ)
	k.async.send(b[:])
}

func roundPow2(n uint32) uint32 {
	p := uint32(1)
	for p < n && p < 1<<31 {
		p <<= 1
	}
	return p
}
