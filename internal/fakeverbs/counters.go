package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Counters are the kernel's side of counters.
type Counters struct {
	Values []uint64 // that are read, and no more
	Cached bool     // the last reader took cached ones
}

func (k *Kernel) createCounters(r *ioctl.Request) error {
	r.SetObject(abi.UVERBS_ATTR_CREATE_COUNTERS_HANDLE, k.Add("COUNTERS", &Counters{Values: []uint64{0, 0}}, nothing))
	return nil
}

func (k *Kernel) destroyCounters(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_COUNTERS_HANDLE)
	return k.Remove("COUNTERS", uint32(h))
}

// readCounters wants a flow that has them.
func (k *Kernel) readCounters(r *ioctl.Request) error {
	o, c, err := FindIn[*Counters](k, "COUNTERS", r, abi.UVERBS_ATTR_READ_COUNTERS_HANDLE)
	if err != nil {
		return err
	}
	flags, _ := r.Value(abi.UVERBS_ATTR_READ_COUNTERS_FLAGS)
	b, _ := r.Bytes(abi.UVERBS_ATTR_READ_COUNTERS_BUFF)
	if o.refs == 0 || flags&^abi.IB_UVERBS_READ_COUNTERS_PREFER_CACHED != 0 || len(b)/8 > len(c.Values) {
		return syscall.EINVAL
	}
	c.Cached = flags != 0
	for i := range len(b) / 8 {
		copy(b[8*i:], abi.Bytes(&c.Values[i]))
	}
	return nil
}

// AllCounters returns the counters, lowest handle first.
func (k *Kernel) AllCounters() []*Counters { return bodies[*Counters](k) }
