package fakeverbs

import (
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Flow is a flow rule as the kernel was told of it.
type Flow struct {
	QP    *QP
	Attr  abi.IbUverbsFlowAttr
	Specs []FlowSpec
}

// FlowSpec is a part of it: a filter and its mask, or the bytes of an action.
type FlowSpec struct {
	Type      uint32
	Val, Mask []byte
}

const (
	flowAllDefault  = 1
	flowMCDefault   = 2
	flowDontTrap    = 1 << 1
	flowFlagsEnd    = 1 << 3
	flowMostSpecs   = 10
	flowSpecSize    = 88 // of the longest
	flowInner       = 0x100
	flowFirstAction = 0x1000
	flowCount       = 0x1003
)

// flowFilters are the sizes of the headers' filters, and flowActions those of the actions with
// their own header.
var (
	flowFilters = map[uint32]int{0x20: 16, 0x30: 12, 0x31: 40, 0x34: 8, 0x40: 4, 0x41: 4, 0x50: 4, 0x51: 8, 0x60: 4}
	flowActions = map[uint32]int{0x1000: 16, 0x1001: 8, flowCount: 16}
)

// flowModel is a driver that does not take all rules that the core does.
type flowModel interface{ CreateFlow(*Flow) error }

func (k *Kernel) createFlow(r *ioctl.Request) error {
	in := request[abi.IbUverbsCreateFlow](r)
	b, _ := r.Bytes(abi.UVERBS_ATTR_CORE_IN)
	a := &in.FlowAttr
	defaults := a.Type == flowAllDefault || a.Type == flowMCDefault
	switch b = b[24:]; {
	case in.CompMask != 0, a.Flags >= flowFlagsEnd, a.Flags&flowDontTrap != 0 && defaults, a.NumOfSpecs > flowMostSpecs,
		int(a.Size) > int(a.NumOfSpecs)*flowSpecSize, a.Reserved != [2]uint8{}:
		return syscall.EINVAL
	case len(b) < int(a.Size):
		return syscall.ENOSPC
	case !IsZero(b[a.Size:]):
		return syscall.EOPNOTSUPP
	}
	o, qp, err := find[*QP](k, "QP", in.QpHandle)
	if err != nil || a.Port != 1 || qp.Type != abi.IB_UVERBS_QPT_UD && qp.Type != abi.IB_UVERBS_QPT_RAW_PACKET {
		return syscall.EINVAL
	}
	f := &Flow{QP: qp, Attr: *a}
	uses, err := k.readSpecs(f, b[:a.Size])
	if err != nil {
		return err
	}
	if m, ok := k.Model.(flowModel); ok {
		if err := m.CreateFlow(f); err != nil {
			return err
		}
	}
	return respond(r, abi.IbUverbsCreateFlowResp{FlowHandle: k.Add("FLOW", f, nothing, append(uses, o)...)})
}

// readSpecs reads all specs, and finds the counters that they name.
func (k *Kernel) readSpecs(f *Flow, b []byte) (uses []*object, err error) {
	for range f.Attr.NumOfSpecs {
		if len(b) < 8 {
			return nil, syscall.EINVAL
		}
		typ, size := binary.NativeEndian.Uint32(b), int(binary.NativeEndian.Uint16(b[4:]))
		if size < 8 || size > len(b) || b[6]|b[7] != 0 {
			return nil, syscall.EINVAL
		}
		s, err := readSpec(typ, b[8:size])
		if err != nil {
			return nil, err
		}
		if typ == flowCount {
			o, err := k.Find("COUNTERS", binary.NativeEndian.Uint32(s.Val))
			if err != nil {
				return nil, syscall.EINVAL
			}
			uses = append(uses, o)
		}
		f.Specs, b = append(f.Specs, s), b[size:]
	}
	if len(b) > 0 {
		return nil, syscall.EINVAL
	}
	return uses, nil
}

// readSpec wants filters of the length that the kernel knows, or of fewer bytes, or of more
// that are zeros in the mask.
func readSpec(typ uint32, b []byte) (s FlowSpec, err error) {
	if typ >= flowFirstAction {
		if flowActions[typ] != 8+len(b) {
			return s, syscall.EINVAL
		}
		return FlowSpec{Type: typ, Val: b}, nil
	}
	known := flowFilters[typ&^flowInner]
	half := len(b) / 2
	switch {
	case known == 0 || half == 0 || half%4 != 0 || typ == 0x150:
		return s, syscall.EINVAL
	case half > known && !IsZero(b[half+known:]):
		return s, syscall.EINVAL
	}
	s = FlowSpec{typ, b[:half], b[half:]}
	for _, part := range [][]byte{s.Val, s.Mask} {
		label := typ&^flowInner == 0x31 && half >= 36 && binary.BigEndian.Uint32(part[32:]) >= 1<<20
		if label || typ == 0x50 && binary.BigEndian.Uint32(part) >= 1<<24 {
			return s, syscall.EINVAL
		}
	}
	return s, nil
}

func (k *Kernel) destroyFlow(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_FLOW_HANDLE)
	return k.Remove("FLOW", uint32(h))
}

// Flows returns the flow rules, lowest handle first.
func (k *Kernel) Flows() []*Flow { return bodies[*Flow](k) }
