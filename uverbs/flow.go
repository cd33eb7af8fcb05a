package uverbs

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
)

// Flow is a rule that steers packets to a QP.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: struct ibv_flow
type Flow struct {
	object
	qp       *QP
	handle   uint32
	memory   *memory
	counters []*Counters
}

// FlowOptions describes a flow rule.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: struct ibv_flow_attr
type FlowOptions struct {
	Type     flow.Type
	Port     int    // 0 means 1
	Priority uint16 // 0 is matched first
	Flags    flow.Flags
	Specs    []flow.Spec // at most 10: headers, the outermost first, then actions
}

// CreateFlow creates a rule that steers packets to a QP of type [verbs.QPTypeRawPacket] or
// [verbs.QPTypeUD]. It needs CAP_NET_RAW.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_create_flow
func (qp *QP) CreateFlow(opts *FlowOptions) (*Flow, error) {
	if opts == nil {
		opts = &FlowOptions{}
	}
	specs, counters, err := encodeSpecs(opts.Specs)
	if opts.Port < 0 || opts.Port > math.MaxUint8 {
		err = fmt.Errorf("port %d: the kernel takes at most %d", opts.Port, math.MaxUint8)
	}
	if err != nil {
		return nil, qp.fail("create a flow of", syscall.EINVAL, err.Error())
	}
	f := &Flow{qp: qp, counters: counters}
	parents := []*object{&qp.object}
	for _, c := range counters {
		parents = append(parents, &c.object)
	}
	if err := f.attach("flow", parents...); err != nil {
		return nil, err
	}
	if err := f.create(opts, specs); err != nil {
		f.detach()
		return nil, f.fail("create", err, qp.flowHint(err))
	}
	f.created(f, f.handle)
	return f, nil
}

func encodeSpecs(all []flow.Spec) (b []byte, counters []*Counters, err error) {
	if len(all) > 10 {
		return nil, nil, errors.New("a flow has at most 10 specs")
	}
	for i, s := range all {
		if s == nil {
			return nil, nil, fmt.Errorf("spec %d is nil", i)
		}
		if c, ok := s.(*Counters); ok {
			if c == nil {
				return nil, nil, fmt.Errorf("spec %d names no counters", i)
			}
			counters = append(counters, c)
		}
		b = s.AppendSpec(b)
	}
	return b, counters, nil
}

func (f *Flow) create(opts *FlowOptions, specs []byte) (err error) {
	if len(f.counters) > 0 {
		f.qp.dev.counting.Lock()
		defer f.qp.dev.counting.Unlock()
	}
	c := f.qp.dev.creation(nil)
	c.issue = func(u driver.UHW, extra []driver.Attr) error { return f.issueCreate(opts, specs, u, extra) }
	f.memory = c.memory
	if p, ok := f.qp.dev.provider.(driver.FlowCreator); ok {
		r := &driver.CreateFlow{Call: c}
		for _, c := range f.counters {
			if c.flows == 0 {
				r.Counters = append(r.Counters, c.points...)
			}
		}
		err = p.CreateFlow(r)
	} else {
		err = c.Do(driver.UHW{})
	}
	if err = c.made(err, f.issueDestroy); err == nil {
		f.count(1)
	}
	return err
}

// count changes the number of flow rules that use the counters. The caller holds counting.
func (f *Flow) count(by int) {
	for _, c := range f.counters {
		c.flows += by
	}
}

func (f *Flow) issueCreate(opts *FlowOptions, specs []byte, u driver.UHW, extra []driver.Attr) error {
	var resp abi.IbUverbsCreateFlowResp
	in := abi.IbUverbsCreateFlow{QpHandle: f.qp.handle, FlowAttr: abi.IbUverbsFlowAttr{Type: uint32(opts.Type), Size: uint16(len(specs)),
		Priority: opts.Priority, NumOfSpecs: uint8(len(opts.Specs)), Port: uint8(max(opts.Port, 1)), Flags: uint32(opts.Flags)}}
	r := ioctl.WriteBytes(uint32(f.qp.dev.info.Driver), ioctl.Extended(abi.IB_USER_VERBS_EX_CMD_CREATE_FLOW), append(abi.Bytes(&in), specs...))
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := f.qp.dev.doWith(r, u, extra); err != nil {
		return err
	}
	f.handle = resp.FlowHandle
	return nil
}

func (qp *QP) flowHint(err error) string {
	switch {
	case errors.Is(err, syscall.EINVAL) && qp.typ != verbs.QPTypeRawPacket && qp.typ != verbs.QPTypeUD:
		return "only RAW_PACKET and UD QPs take flows"
	case ioctl.Unsupported(err), errors.Is(err, errors.ErrUnsupported):
		return "the device does not support this flow rule for this type of QP, or no flow rules at all"
	}
	return createHint(err)
}

// Close removes the rule.
//
// C: ibv_destroy_flow
func (f *Flow) Close() error {
	if f == nil {
		return closeNil("Flow")
	}
	return f.close(f.destroy, f.memory.free)
}

func (f *Flow) destroy() error {
	if len(f.counters) == 0 {
		return f.issueDestroy()
	}
	f.qp.dev.counting.Lock()
	defer f.qp.dev.counting.Unlock()
	err := f.issueDestroy()
	if err == nil {
		f.count(-1)
	}
	return err
}

func (f *Flow) issueDestroy() error {
	r := f.qp.dev.request(abi.UVERBS_OBJECT_FLOW, abi.UVERBS_METHOD_FLOW_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_FLOW_HANDLE, f.handle)
	return r.Do(f.qp.dev.file)
}

// Counters is a set of counters of a device, which flow rules update.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: struct ibv_counters
type Counters struct {
	object
	dev    *Device
	handle uint32

	// guarded by the device's counting
	points []driver.CounterPoint
	flows  int // flow rules that use it
}

// CreateCounters creates an empty set of counters. [Counters.Count] adds counters to the set. A flow
// rule that has the set among its specs updates them.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_create_counters
func (d *Device) CreateCounters() (*Counters, error) {
	c := &Counters{dev: d}
	if err := c.attach("counters", &d.object); err != nil {
		return nil, err
	}
	if err := c.create(); err != nil {
		c.detach()
		return nil, c.fail("create", err, createHint(err))
	}
	c.created(c, c.handle)
	return c, nil
}

func (c *Counters) create() error {
	r := c.dev.request(abi.UVERBS_OBJECT_COUNTERS, abi.UVERBS_METHOD_COUNTERS_CREATE)
	defer r.Free()
	r.NewObject(abi.UVERBS_ATTR_CREATE_COUNTERS_HANDLE)
	if err := r.Do(c.dev.file); err != nil {
		return err
	}
	c.handle = r.Created(abi.UVERBS_ATTR_CREATE_COUNTERS_HANDLE)
	return nil
}

// Count adds a counter of the given kind at an index. While a flow rule uses the counters, their
// kinds are fixed, and Count returns an error that matches ErrInUse.
//
// C: ibv_attach_counters_point_flow, without a flow
func (c *Counters) Count(kind flow.CounterKind, index uint32) error {
	return c.using("attach a point to", func() error {
		c.dev.counting.Lock()
		defer c.dev.counting.Unlock()
		if c.flows > 0 {
			return c.fail("attach a point to", verbs.ErrInUse, "close the flow rules that use it")
		}
		c.points = append(c.points, driver.CounterPoint{Counts: kind, Index: index})
		return nil
	})
}

// Read reads the counters from index 0 on. values must have room for the largest index that is
// counted. With cached, the device may return older values, which is cheaper.
//
// C: ibv_read_counters
func (c *Counters) Read(values []uint64, cached bool) error {
	return c.using("read", func() error {
		r := c.dev.request(abi.UVERBS_OBJECT_COUNTERS, abi.UVERBS_METHOD_COUNTERS_READ)
		defer r.Free()
		r.Handle(abi.UVERBS_ATTR_READ_COUNTERS_HANDLE, c.handle)
		flags := uint32(0)
		if cached {
			flags = abi.IB_UVERBS_READ_COUNTERS_PREFER_CACHED
		}
		r.Flags(abi.UVERBS_ATTR_READ_COUNTERS_FLAGS, flags)
		ioctl.OutSlice(r, abi.UVERBS_ATTR_READ_COUNTERS_BUFF, values)
		if err := r.Do(c.dev.file); err != nil {
			return c.fail("read", err, countersHint(err))
		}
		return nil
	})
}

func countersHint(err error) string {
	if errors.Is(err, syscall.EINVAL) {
		return "no flow uses the counters, or the largest counted index does not fit"
	}
	return ""
}

// Close destroys the counters. Flow rules that use them must be closed first.
//
// C: ibv_destroy_counters
func (c *Counters) Close() error {
	if c == nil {
		return closeNil("Counters")
	}
	return c.close(func() error {
		r := c.dev.request(abi.UVERBS_OBJECT_COUNTERS, abi.UVERBS_METHOD_COUNTERS_DESTROY)
		defer r.Free()
		r.Handle(abi.UVERBS_ATTR_DESTROY_COUNTERS_HANDLE, c.handle)
		return r.Do(c.dev.file)
	}, noop)
}

// AppendSpec implements [flow.Spec], so that a flow rule can update the counters.
//
// C: struct ibv_flow_spec_counter_action
func (c *Counters) AppendSpec(b []byte) []byte {
	const specCount = 0x1003 // C: IB_FLOW_SPEC_ACTION_COUNT
	hdr := abi.IbUverbsFlowSpecHdr{Type: specCount, Size: 16}
	v := [2]uint32{c.handle, 0}
	return append(append(b, abi.Bytes(&hdr)...), abi.Bytes(&v)...)
}
