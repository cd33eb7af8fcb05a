package fakeverbs

import (
	"encoding/binary"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Flow is the kernel's side of a flow rule.
type Flow struct {
	QP    *QP
	Attr  abi.IbUverbsFlowAttr
	Specs []FlowSpec
}

// FlowSpec is a part of a flow rule: a filter and its mask, or the bytes of an action.
type FlowSpec struct {
	Type      uint32
	Val, Mask []byte
	Counters  *Counters // counters of an action that counts
}

const (
	flowAllDefault  = 1
	flowMCDefault   = 2
	flowDontTrap    = 1 << 1
	flowFlagsEnd    = 1 << 3
	flowMostSpecs   = 10
	flowSpecSize    = 88 // size of the longest spec
	flowInner       = 0x100
	flowFirstAction = 0x1000
)

// The types of actions.
const (
	FlowTag   = 0x1000
	FlowDrop  = 0x1001
	FlowCount = 0x1003
)

// flowFilters holds the sizes of filters, and flowActions the sizes of actions including their header.
var (
	flowFilters = map[uint32]int{0x20: 16, 0x30: 12, 0x31: 40, 0x34: 8, 0x40: 4, 0x41: 4, 0x50: 4, 0x51: 8, 0x60: 4}
	flowActions = map[uint32]int{FlowTag: 16, FlowDrop: 8, FlowCount: 16}
)

// flowModel is a driver that doesn't support all rules of the core.
type flowModel interface {
	CreateFlow(*Flow, *ioctl.Request) error
}

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
		if err := m.CreateFlow(f, r); err != nil {
			return err
		}
	}
	for _, s := range f.Specs {
		if s.Counters != nil {
			s.Counters.flows++
		}
	}
	return respond(r, abi.IbUverbsCreateFlowResp{FlowHandle: k.Add("FLOW", f, f.free, append(uses, o)...)})
}

// free removes the rule. The last rule that uses counters resets their kinds.
func (r *Flow) free() {
	for _, s := range r.Specs {
		if c := s.Counters; c != nil {
			if c.flows--; c.flows == 0 {
				c.Kinds = nil
			}
		}
	}
}

// readSpecs reads all specs and looks up the counters that they refer to.
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
		if typ == FlowCount {
			o, c, err := find[*Counters](k, "COUNTERS", binary.NativeEndian.Uint32(s.Val))
			if err != nil {
				return nil, syscall.EINVAL
			}
			uses, s.Counters = append(uses, o), c
		}
		f.Specs, b = append(f.Specs, s), b[size:]
	}
	if len(b) > 0 {
		return nil, syscall.EINVAL
	}
	return uses, nil
}

// readSpec reads a spec. A filter may be shorter than the kernel's. It may be longer if the additional
// bytes of the mask are zero.
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
	s = FlowSpec{Type: typ, Val: b[:half], Mask: b[half:]}
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

// The types of headers in rules.
const (
	FlowEthernet = 0x20
	FlowIPv4     = 0x30
	FlowIPv6     = 0x31
	FlowTCP      = 0x40
	FlowUDP      = 0x41
)

// Frame is an Ethernet frame. It has the headers in the layout of filters.
type Frame struct {
	Group bool   // whether the destination is a group address
	IP    []byte // the frame from the IPv4 or IPv6 header on, or nil
	Proto uint8  // protocol of the next header
	Inner int    // offset of the next header in IP

	headers map[uint32][]byte
}

const (
	etherIPv4  = 0x0800
	etherIPv6  = 0x86dd
	etherVLAN  = 0x8100
	headerIPv4 = 20
	headerIPv6 = 40
)

// The transports.
const (
	ProtoTCP = 6
	ProtoUDP = 17
)

// ReadFrame parses the headers of a frame. It ignores a truncated header.
func ReadFrame(b []byte) *Frame {
	f := &Frame{headers: make(map[uint32][]byte)}
	if len(b) < 14 {
		return f
	}
	f.Group = b[0]&1 != 0
	typ, tag, rest := binary.BigEndian.Uint16(b[12:]), []byte{0, 0}, b[14:]
	if typ == etherVLAN && len(rest) >= 4 {
		tag, typ, rest = rest[:2], binary.BigEndian.Uint16(rest[2:]), rest[4:]
	}
	f.headers[FlowEthernet] = slices.Concat(b[:12], binary.BigEndian.AppendUint16(nil, typ), tag)
	switch {
	case typ == etherIPv4 && len(rest) >= headerIPv4 && rest[0]>>4 == 4:
		f.ipv4(rest)
	case typ == etherIPv6 && len(rest) >= headerIPv6:
		f.ipv6(rest)
	}
	if f.IP != nil {
		f.ports(f.IP[f.Inner:])
	}
	return f
}

// IsIPv4 reports whether f.IP begins with an IPv4 header.
func (f *Frame) IsIPv4() bool { return f.headers[FlowIPv4] != nil }

func (f *Frame) ipv4(b []byte) {
	n := int(b[0]&15) * 4
	if n < headerIPv4 || n > len(b) {
		return
	}
	f.IP, f.Proto, f.Inner = b, b[9], n
	f.headers[FlowIPv4] = slices.Concat(b[12:20], b[9:10], b[1:2], b[8:9], []byte{b[6] >> 5})
}

func (f *Frame) ipv6(b []byte) {
	f.IP, f.Proto, f.Inner = b, b[6], headerIPv6
	first := binary.BigEndian.Uint32(b)
	label := binary.BigEndian.AppendUint32(nil, first&0xfffff)
	f.headers[FlowIPv6] = slices.Concat(b[8:40], label, b[6:7], []byte{byte(first >> 20)}, b[7:8], []byte{0})
}

// ports reads the ports into the layout of filters, which have the destination port first.
func (f *Frame) ports(b []byte) {
	if len(b) < 4 {
		return
	}
	ports := slices.Concat(b[2:4], b[:2])
	switch f.Proto {
	case ProtoTCP:
		f.headers[FlowTCP] = ports
	case ProtoUDP:
		f.headers[FlowUDP] = ports
	}
}

// Matches reports whether a frame matches all specs of a rule.
func (r *Flow) Matches(f *Frame) bool {
	for _, s := range r.Specs {
		if s.Type >= flowFirstAction {
			continue
		}
		b := f.headers[s.Type]
		if b == nil {
			return false
		}
		for i := range min(len(b), len(s.Val)) {
			if (b[i]^s.Val[i])&s.Mask[i] != 0 {
				return false
			}
		}
	}
	return true
}

// Filters returns the number of headers that a rule filters by.
func (r *Flow) Filters() (n int) {
	for _, s := range r.Specs {
		if s.Type < flowFirstAction {
			n++
		}
	}
	return n
}

// action returns the action of a type, or nil.
func (r *Flow) action(typ uint32) *FlowSpec {
	for i := range r.Specs {
		if r.Specs[i].Type == typ {
			return &r.Specs[i]
		}
	}
	return nil
}

// Take applies the rule's actions to a packet of n bytes. It returns the packet's flow tag, and false if
// the packet is dropped.
func (r *Flow) Take(n int) (tag uint32, ok bool) {
	if s := r.action(FlowCount); s != nil {
		r.QP.k.mu.Lock()
		s.Counters.packets++
		s.Counters.bytes += uint64(n)
		r.QP.k.mu.Unlock()
	}
	if s := r.action(FlowTag); s != nil {
		tag = binary.NativeEndian.Uint32(s.Val)
	}
	return tag, r.action(FlowDrop) == nil
}

// Counters are the kernel's side of counters.
type Counters struct {
	Values []uint64 // values to be read, if Kinds is empty
	Cached bool     // whether the last reader requested cached values
	// Kinds maps counters to indexes, for drivers that count. Values is unused then.
	Kinds          []CounterKind
	packets, bytes uint64
	flows          int
}

// CounterKind is the index of a counter. Kind 0 counts packets, kind 1 bytes.
type CounterKind struct{ Kind, Index uint32 }

// read returns the values. If the driver counts, there must be room for all of them.
func (c *Counters) read(room int) (values []uint64, ok bool) {
	if c.Kinds == nil {
		return c.Values, room <= len(c.Values)
	}
	values = make([]uint64, room)
	for _, k := range c.Kinds {
		if int(k.Index) >= room {
			return nil, false
		}
		values[k.Index] += [2]uint64{c.packets, c.bytes}[k.Kind]
	}
	return values, true
}

func (k *Kernel) createCounters(r *ioctl.Request) error {
	r.SetObject(abi.UVERBS_ATTR_CREATE_COUNTERS_HANDLE, k.Add("COUNTERS", &Counters{Values: []uint64{0, 0}}, nothing))
	return nil
}

func (k *Kernel) destroyCounters(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_COUNTERS_HANDLE)
	return k.Remove("COUNTERS", uint32(h))
}

// readCounters reads counters, which must belong to a flow.
func (k *Kernel) readCounters(r *ioctl.Request) error {
	o, c, err := FindIn[*Counters](k, "COUNTERS", r, abi.UVERBS_ATTR_READ_COUNTERS_HANDLE)
	if err != nil {
		return err
	}
	flags, _ := r.Value(abi.UVERBS_ATTR_READ_COUNTERS_FLAGS)
	b, _ := r.Bytes(abi.UVERBS_ATTR_READ_COUNTERS_BUFF)
	values, ok := c.read(len(b) / 8)
	if o.refs == 0 || flags&^abi.IB_UVERBS_READ_COUNTERS_PREFER_CACHED != 0 || !ok {
		return syscall.EINVAL
	}
	c.Cached = flags != 0
	for i := range len(b) / 8 {
		copy(b[8*i:], abi.Bytes(&values[i]))
	}
	return nil
}

// AllCounters returns the counters, lowest handle first.
func (k *Kernel) AllCounters() []*Counters { return bodies[*Counters](k) }
