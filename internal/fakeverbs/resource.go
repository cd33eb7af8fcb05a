package fakeverbs

import (
	"maps"
	"slices"
)

// Resource is an object that the kernel tracks for netlink.
type Resource struct {
	Body   any    // *QP, *CQ, *MR, *SRQ, or PD
	Number uint32 // of the object on the device
	Users  int    // number of objects that use it
	PD, CQ uint32 // numbers of the PD that it is in, and of an SRQ's CQ; 0 if it has none
}

// Track calls f for each object that the kernel tracks, lowest handle first, and returns the number of the
// context. If no context is open, it returns 0. f must not call the Kernel.
func (k *Kernel) Track(f func(Resource)) (context uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.isGone() || !k.context {
		return 0
	}
	for _, h := range slices.Sorted(maps.Keys(k.objects)) {
		o := k.objects[h]
		r := Resource{Body: o.body, Number: o.number, Users: o.refs}
		switch b := o.body.(type) {
		case PD, *CQ:
		case *MR:
			r.PD = k.number("PD", b.PD)
		case *QP:
			if b.Untracked {
				continue
			}
			_ = b.Shared(func() error { return nil }) // another handle may have changed its state
			r.PD = k.number("PD", b.PD)
		case *SRQ:
			r.PD = k.number("PD", b.PD)
			if b.CQ != nil {
				r.CQ = k.number("CQ", b.CQ.ID)
			}
		default:
			continue
		}
		f(r)
	}
	return k.id
}

func (k *Kernel) number(kind string, handle uint32) uint32 {
	o, err := k.Find(kind, handle)
	if err != nil {
		return 0
	}
	return o.number
}
