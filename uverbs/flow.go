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

// Flow is a rule that gives packets to a QP.
//
// C: struct ibv_flow
type Flow struct {
	object
	qp     *QP
	handle uint32
	memory *memory
}

// FlowOptions describe a flow rule.
//
// C: struct ibv_flow_attr
type FlowOptions struct {
	Type     flow.Type
	Port     uint32 // 0 means 1
	Priority uint16 // 0 comes first
	Flags    flow.Flags
	Specs    []flow.Spec // at most 10: headers from the outermost on, then actions
}

// CreateFlow has the device give packets to a QP of type [verbs.QPTypeRawPacket] or [verbs.QPTypeUD]. It
// needs CAP_NET_RAW.
//
// C: ibv_create_flow
func (qp *QP) CreateFlow(opts *FlowOptions) (*Flow, error) {
	if opts == nil {
		opts = &FlowOptions{}
	}
	specs, counters, err := encodeSpecs(opts.Specs)
	if opts.Port > math.MaxUint8 {
		err = fmt.Errorf("port %d: the kernel takes %d at most", opts.Port, math.MaxUint8)
	}
	if err != nil {
		return nil, qp.fail("create a flow of", syscall.EINVAL, err.Error())
	}
	f := &Flow{qp: qp}
	parents := []*object{&qp.object}
	for _, c := range counters {
		parents = append(parents, &c.object)
	}
	if err := f.attach("flow", parents...); err != nil {
		return nil, err
	}
	if err := f.create(opts, specs, counters); err != nil {
		f.detach()
		return nil, f.fail("create", err, qp.flowHint(err))
	}
	f.setNumber(f.handle)
	return f, nil
}

func encodeSpecs(all []flow.Spec) (b []byte, counters []*Counters, err error) {
	if len(all) > 10 {
		return nil, nil, errors.New("a flow has 10 specs at most")
	}
	for i, s := range all {
		if s == nil {
			return nil, nil, fmt.Errorf("spec %d is nil", i)
		}
		if c, ok := s.(*FlowCount); ok {
			if c.Counters == nil {
				return nil, nil, fmt.Errorf("spec %d names no counters", i)
			}
			counters = append(counters, c.Counters)
		}
		b = s.AppendSpec(b)
	}
	return b, counters, nil
}

func (f *Flow) create(opts *FlowOptions, specs []byte, counters []*Counters) (err error) {
	c := f.qp.dev.creation(nil)
	c.issue = func(u driver.UHW, extra []driver.Attr) error { return f.issueCreate(opts, specs, u, extra) }
	f.memory = c.memory
	if p, ok := f.qp.dev.provider.(driver.FlowCreator); ok {
		r := &driver.CreateFlow{Call: c}
		for _, c := range counters {
			r.Counters = append(r.Counters, c.counted()...)
		}
		err = p.CreateFlow(r)
	} else {
		err = c.Do(driver.UHW{})
	}
	return c.made(err, f.issueDestroy)
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
		return "flows are given to RAW_PACKET and UD QPs only"
	case unsupported(err):
		return "there are no such flow rules for such a QP, or no flow rules at all"
	}
	return createHint(err)
}

// Close ends the rule.
//
// C: ibv_destroy_flow
func (f *Flow) Close() error {
	if f == nil {
		return closeNil("Flow")
	}
	return f.close(f.issueDestroy, f.memory.free)
}

func (f *Flow) issueDestroy() error {
	r := f.qp.dev.request(abi.UVERBS_OBJECT_FLOW, abi.UVERBS_METHOD_FLOW_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_FLOW_HANDLE, f.handle)
	return r.Do(f.qp.dev.file)
}
