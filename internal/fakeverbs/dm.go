package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// DM is memory of the device's own.
type DM struct {
	Length   uint64
	LogAlign uint32

	memory lent   // what it is made of, from address 0 on
	Start  uint64 // of the DM in that
	Page   uint16 // of the device where it begins
}

// SetMemory gives the DM the memory that it is made of.
func (dm *DM) SetMemory(r *mmap.Region) { dm.memory.add(piece{0, r, true}) }

// dmModel is a model that has memory of its own. The others only count it.
type dmModel interface {
	AllocDM(dm *DM, r *ioctl.Request) (free func(), err error)
	// DMAccess is all that a region of such memory may allow.
	DMAccess() uint64
}

var AllocDMAttrs = []MethodAttr{
	Obj(abi.UVERBS_ATTR_ALLOC_DM_HANDLE),
	in(abi.UVERBS_ATTR_ALLOC_DM_LENGTH, 8),
	in(abi.UVERBS_ATTR_ALLOC_DM_ALIGNMENT, 4),
}

// AllocDM takes as much as the device says that it has, each time, unless the model counts it.
func (k *Kernel) AllocDM(r *ioctl.Request) error {
	length, _ := r.Value(abi.UVERBS_ATTR_ALLOC_DM_LENGTH)
	align, _ := r.Value(abi.UVERBS_ATTR_ALLOC_DM_ALIGNMENT)
	switch {
	case length == 0, align > 63:
		return syscall.EINVAL
	case length > k.Device.Limits.MaxDM:
		return syscall.ENOMEM
	}
	dm, free := &DM{Length: length, LogAlign: uint32(align)}, nothing
	if m, ok := k.Model.(dmModel); ok {
		var err error
		if free, err = m.AllocDM(dm, r); err != nil {
			return err
		}
	}
	r.SetObject(abi.UVERBS_ATTR_ALLOC_DM_HANDLE, k.Add("DM", dm, free))
	return nil
}

func (k *Kernel) freeDM(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_FREE_DM_HANDLE)
	return k.Remove("DM", uint32(h))
}

// regDM wants a region whose addresses begin at 0.
func (k *Kernel) regDM(r *ioctl.Request) error {
	parent, _, err := FindIn[pd](k, "PD", r, abi.UVERBS_ATTR_REG_DM_MR_PD_HANDLE)
	if err != nil {
		return err
	}
	o, dm, err := FindIn[*DM](k, "DM", r, abi.UVERBS_ATTR_REG_DM_MR_DM_HANDLE)
	if err != nil {
		return err
	}
	offset, _ := r.Value(abi.UVERBS_ATTR_REG_DM_MR_OFFSET)
	length, _ := r.Value(abi.UVERBS_ATTR_REG_DM_MR_LENGTH)
	access, _ := r.Value(abi.UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS)
	if m, ok := k.Model.(dmModel); ok && access&^m.DMAccess() != 0 {
		return syscall.EINVAL
	}
	if access&abi.IB_UVERBS_ACCESS_ZERO_BASED == 0 || offset > dm.Length || length > dm.Length-offset {
		return syscall.EINVAL
	}
	if err := k.checkAccess(uint32(access)); err != nil {
		return err
	}
	pd, _ := r.Value(abi.UVERBS_ATTR_REG_DM_MR_PD_HANDLE)
	mr := &MR{PD: uint32(pd), Length: length, Access: uint32(access), DM: dm, Offset: offset}
	h, err := k.enlist(mr, r, nothing, parent, o)
	if err != nil {
		return err
	}
	return answerMR(r, mr, h, abi.UVERBS_ATTR_REG_DM_MR_HANDLE, abi.UVERBS_ATTR_REG_DM_MR_RESP_LKEY, abi.UVERBS_ATTR_REG_DM_MR_RESP_RKEY)
}

// DMs returns the device memory that is allocated, lowest handle first.
func (k *Kernel) DMs() []*DM { return bodies[*DM](k) }
