package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// DMAH is a DMA handle, and which of its hints were given.
type DMAH struct {
	CPU                   uint32
	MemType, PH           uint8
	HasCPU, HasMem, HasPH bool
}

// newest are the calls that Linux 7.2 adds.
var newest = map[string]bool{"QUERY_PORT_SPEED": true, "DMAH_ALLOC": true, "DMAH_FREE": true, "REG_MR_FOR": true}

// newestMethods are the methods of these calls.
var newestMethods = map[[2]uint16]*Method{
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT_SPEED}: {"QUERY_PORT_SPEED", (*Kernel).queryPortSpeed, []MethodAttr{
		Enum(abi.UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM),
		Out(abi.UVERBS_ATTR_QUERY_PORT_SPEED_RESP, 8),
	}},
	{abi.UVERBS_OBJECT_DMAH, abi.UVERBS_METHOD_DMAH_ALLOC}: {"DMAH_ALLOC", (*Kernel).allocDMAH, []MethodAttr{
		Obj(abi.UVERBS_ATTR_ALLOC_DMAH_HANDLE),
		in(abi.UVERBS_ATTR_ALLOC_DMAH_CPU_ID, 4).Optional(),
		in(abi.UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE, 0).Optional(),
		in(abi.UVERBS_ATTR_ALLOC_DMAH_PH, 1).Optional(),
	}},
	{abi.UVERBS_OBJECT_DMAH, abi.UVERBS_METHOD_DMAH_FREE}: {"DMAH_FREE", (*Kernel).freeDMAH, Destroys(abi.UVERBS_ATTR_FREE_DMA_HANDLE)},
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_MR}: {"REG_MR_FOR", (*Kernel).regMRFor, udata(
		Obj(abi.UVERBS_ATTR_REG_MR_HANDLE),
		Obj(abi.UVERBS_ATTR_REG_MR_PD_HANDLE),
		Obj(abi.UVERBS_ATTR_REG_MR_DMA_HANDLE).Optional(),
		in(abi.UVERBS_ATTR_REG_MR_IOVA, 8),
		in(abi.UVERBS_ATTR_REG_MR_ADDR, 8).Optional(),
		in(abi.UVERBS_ATTR_REG_MR_LENGTH, 8),
		flags(abi.UVERBS_ATTR_REG_MR_ACCESS_FLAGS),
		Out(abi.UVERBS_ATTR_REG_MR_RESP_LKEY, 4),
		Out(abi.UVERBS_ATTR_REG_MR_RESP_RKEY, 4),
	)},
}

// PortSpeed is what devices that tell it say of their port, in units of 100 Mb/s.
const PortSpeed = 750

// queryPortSpeed is in the core for all drivers, and carried out by those of hardware.
func (k *Kernel) queryPortSpeed(r *ioctl.Request) error {
	port, _ := r.Value(abi.UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM)
	switch {
	case k.isSoftware():
		return syscall.EOPNOTSUPP
	case port != 1:
		return syscall.EINVAL
	}
	return Answer(r, abi.UVERBS_ATTR_QUERY_PORT_SPEED_RESP, uint64(PortSpeed))
}

// Processors is how many the machine of a device has that knows DMA handles.
const Processors = 8

// allocDMAH refuses what the core refuses, and what the drivers refuse that have them.
func (k *Kernel) allocDMAH(r *ioctl.Request) error {
	d := &DMAH{}
	d.HasCPU = ioctl.Argument(r, abi.UVERBS_ATTR_ALLOC_DMAH_CPU_ID, &d.CPU)
	d.HasPH = ioctl.Argument(r, abi.UVERBS_ATTR_ALLOC_DMAH_PH, &d.PH)
	var element uint16
	element, d.HasMem = r.Element(abi.UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE)
	d.MemType = uint8(element)
	switch {
	case element > 1:
		return syscall.EOPNOTSUPP
	case d.CPU >= Processors, d.PH > 3, !d.HasPH, d.HasCPU != d.HasMem:
		return syscall.EINVAL
	}
	r.SetObject(abi.UVERBS_ATTR_ALLOC_DMAH_HANDLE, k.Add("DMAH", d, nothing))
	return nil
}

func (k *Kernel) freeDMAH(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_FREE_DMA_HANDLE)
	return k.Remove("DMAH", uint32(h))
}

// regMRFor registers memory with a DMA handle, or without.
func (k *Kernel) regMRFor(r *ioctl.Request) error {
	pdHandle, _ := r.Value(abi.UVERBS_ATTR_REG_MR_PD_HANDLE)
	parent, err := k.Find("PD", uint32(pdHandle))
	if err != nil {
		return err
	}
	parents := []*object{parent}
	mr := &MR{PD: uint32(pdHandle)}
	if _, ok := r.Value(abi.UVERBS_ATTR_REG_MR_DMA_HANDLE); ok {
		var o *object
		if o, mr.DMAH, err = FindIn[*DMAH](k, "DMAH", r, abi.UVERBS_ATTR_REG_MR_DMA_HANDLE); err != nil {
			return err
		}
		parents = append(parents, o)
	}
	addr, hasAddr := r.Value(abi.UVERBS_ATTR_REG_MR_ADDR)
	access, _ := r.Value(abi.UVERBS_ATTR_REG_MR_ACCESS_FLAGS)
	mr.Start, _ = r.Value(abi.UVERBS_ATTR_REG_MR_IOVA)
	mr.Length, _ = r.Value(abi.UVERBS_ATTR_REG_MR_LENGTH)
	mr.Access = uint32(access)
	if !hasAddr || mr.Length == 0 || addr != mr.Start {
		return syscall.EINVAL
	}
	if err := k.User.Check(addr, mr.Length); err != nil {
		return err
	}
	if err := k.checkAccess(mr.Access); err != nil {
		return err
	}
	h, err := k.enlist(mr, r, nothing, parents...)
	if err != nil {
		return err
	}
	return answerMR(r, mr, h, abi.UVERBS_ATTR_REG_MR_HANDLE, abi.UVERBS_ATTR_REG_MR_RESP_LKEY, abi.UVERBS_ATTR_REG_MR_RESP_RKEY)
}

// DMAHs returns the DMA handles that are open, lowest handle first.
func (k *Kernel) DMAHs() []*DMAH { return bodies[*DMAH](k) }
