package uverbs

import (
	"errors"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs/flow"
)

// Counters are numbers that a device counts of flow rules.
//
// C: struct ibv_counters
type Counters struct {
	object
	dev    *Device
	handle uint32
	points []driver.CounterPoint // guarded by the graph's lock
}

// CreateCounters makes counters of nothing yet. Count says of what, and [FlowCount] of which
// flows.
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
	c.setNumber(c.handle)
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

// Count has the number of an index count something, of flows that are made after that.
//
// C: ibv_attach_counters_point_flow, without a flow
func (c *Counters) Count(kind flow.CounterKind, index uint32) error {
	return c.using("attach a point to", func() error {
		c.graph.Lock()
		defer c.graph.Unlock()
		c.points = append(c.points, driver.CounterPoint{Counts: kind, Index: index})
		return nil
	})
}

func (c *Counters) counted() []driver.CounterPoint {
	c.graph.Lock()
	defer c.graph.Unlock()
	return slices.Clone(c.points)
}

// Read reads the numbers from index 0 on, as many as values has room for. With cached the
// device may give those that it read some time ago, which costs it less.
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
		return "no flow has them, or fewer numbers are counted"
	}
	return ""
}

// Close destroys the counters. Flows that have them must be closed before.
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
	}, nothing)
}

// FlowCount counts what matches.
//
// C: struct ibv_flow_spec_counter_action
type FlowCount struct{ Counters *Counters }

// AppendSpec implements [flow.Spec].
func (s *FlowCount) AppendSpec(b []byte) []byte {
	const specCount = 0x1003 // C: IB_FLOW_SPEC_ACTION_COUNT
	hdr := abi.IbUverbsFlowSpecHdr{Type: specCount, Size: 16}
	v := [2]uint32{s.Counters.handle, 0}
	return append(append(b, abi.Bytes(&hdr)...), abi.Bytes(&v)...)
}
