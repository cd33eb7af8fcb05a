package uverbs

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// CompCounter counts the completed operations of the QPs that it is attached to. It has two
// numbers: operations that succeeded, and operations that failed. A program that only needs to
// know whether all writes have arrived can read one number instead of polling completions.
//
// It needs a kernel newer than Linux 7.2 and support by the driver. Otherwise errors match
// [verbs.ErrNotSupported]. All methods may be called concurrently, and each makes a system call.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: struct ibv_comp_cntr
type CompCounter struct {
	object
	dev    *Device
	handle uint32
}

// QueryCompCounterCaps returns the limits of the device's completion counters.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_query_comp_cntr_caps
func (d *Device) QueryCompCounterCaps() (caps verbs.CompCounterCaps, err error) {
	const op = "query the completion counters of"
	err = d.using(op, func() error {
		r := d.request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_COMP_CNTR_CAPS)
		defer r.Free()
		ioctl.Out(r, abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS, &caps.MaxCounters)
		ioctl.Out(r, abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE, &caps.MaxValue)
		ioctl.Out(r, abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS, &caps.Ops)
		if err := r.Do(d.file); err != nil {
			caps = verbs.CompCounterCaps{}
			return d.fail(op, err, d.afterHint(err))
		}
		return nil
	})
	return caps, err
}

// afterHint explains that a method is newer than the newest kernel, if err says that it is not
// supported.
func (d *Device) afterHint(err error) string {
	if !ioctl.Unsupported(err) {
		return ""
	}
	return fmt.Sprintf("completion counters need a kernel newer than Linux 7.2, and driver %v may not support them", d.info.Driver)
}

// CreateCompCounter creates a completion counter whose numbers are 0. Use
// [QP.AttachCompCounter] to attach it to QPs.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_create_comp_cntr
func (d *Device) CreateCompCounter() (*CompCounter, error) {
	c := &CompCounter{dev: d}
	if err := c.attach("completion counter", &d.object); err != nil {
		return nil, err
	}
	if err := c.issueCreate(); err != nil {
		c.detach()
		hint := d.afterHint(err)
		if hint == "" {
			hint = createHint(err)
		}
		return nil, c.fail("create", err, hint)
	}
	c.setNumber(c.handle)
	return c, nil
}

func (c *CompCounter) issueCreate() error {
	r := c.dev.request(abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_CREATE)
	defer r.Free()
	r.NewObject(abi.UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE)
	if err := r.Do(c.dev.file); err != nil {
		return err
	}
	c.handle = r.Created(abi.UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE)
	return nil
}

// Read returns the number of operations that succeeded.
//
// C: ibv_read_comp_cntr
func (c *CompCounter) Read() (uint64, error) { return c.read(abi.IB_UVERBS_COMP_CNTR_ENTRY_COMP) }

// ReadErrors returns the number of operations that failed.
//
// C: ibv_read_err_comp_cntr
func (c *CompCounter) ReadErrors() (uint64, error) { return c.read(abi.IB_UVERBS_COMP_CNTR_ENTRY_ERR) }

func (c *CompCounter) read(entry uint64) (value uint64, err error) {
	err = c.using("read", func() error {
		r := c.dev.request(abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_READ)
		defer r.Free()
		r.Handle(abi.UVERBS_ATTR_READ_COMP_CNTR_HANDLE, c.handle)
		r.Const(abi.UVERBS_ATTR_READ_COMP_CNTR_ENTRY, entry)
		ioctl.Out(r, abi.UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, &value)
		if err := r.Do(c.dev.file); err != nil {
			return c.fail("read", err, "")
		}
		return nil
	})
	return value, err
}

// Set sets the number of operations that succeeded, to at most CompCounterCaps.MaxValue.
//
// C: ibv_set_comp_cntr
func (c *CompCounter) Set(value uint64) error {
	return c.modify(abi.IB_UVERBS_COMP_CNTR_ENTRY_COMP, abi.IB_UVERBS_COMP_CNTR_MODIFY_OP_SET, value)
}

// SetErrors sets the number of operations that failed.
//
// C: ibv_set_err_comp_cntr
func (c *CompCounter) SetErrors(value uint64) error {
	return c.modify(abi.IB_UVERBS_COMP_CNTR_ENTRY_ERR, abi.IB_UVERBS_COMP_CNTR_MODIFY_OP_SET, value)
}

// Add adds to the number of operations that succeeded.
//
// C: ibv_inc_comp_cntr
func (c *CompCounter) Add(amount uint64) error {
	return c.modify(abi.IB_UVERBS_COMP_CNTR_ENTRY_COMP, abi.IB_UVERBS_COMP_CNTR_MODIFY_OP_INC, amount)
}

// AddErrors adds to the number of operations that failed.
//
// C: ibv_inc_err_comp_cntr
func (c *CompCounter) AddErrors(amount uint64) error {
	return c.modify(abi.IB_UVERBS_COMP_CNTR_ENTRY_ERR, abi.IB_UVERBS_COMP_CNTR_MODIFY_OP_INC, amount)
}

func (c *CompCounter) modify(entry, op, value uint64) error {
	return c.using("modify", func() error {
		r := c.dev.request(abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_MODIFY)
		defer r.Free()
		r.Handle(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE, c.handle)
		r.Const(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, entry)
		r.Const(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_OP, op)
		r.U64(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, value)
		if err := r.Do(c.dev.file); err != nil {
			return c.fail("modify", err, "")
		}
		return nil
	})
}

// Close destroys the counter. QPs that it is attached to must be closed first.
//
// C: ibv_destroy_comp_cntr
func (c *CompCounter) Close() error {
	if c == nil {
		return closeNil("CompCounter")
	}
	return c.close(func() error {
		r := c.dev.request(abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_DESTROY)
		defer r.Free()
		r.Handle(abi.UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE, c.handle)
		return r.Do(c.dev.file)
	}, noop)
}

// AttachCompCounter makes c count operations of the QP until the QP is closed. The counter must stay
// open for as long. A device may support only some operations ([verbs.CompCounterCaps]). Attach the
// counter before the QP leaves RESET, because some devices refuse other states.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_qp_attach_comp_cntr
func (qp *QP) AttachCompCounter(c *CompCounter, ops verbs.CompCounterOps) error {
	const op = "attach a completion counter to"
	return qp.using(op, func() error {
		if c == nil {
			return fmt.Errorf("%w: no counter", syscall.EINVAL)
		}
		if err := qp.join(&c.object); err != nil {
			return err
		}
		if err := qp.issueAttachCompCounter(c, ops); err != nil {
			qp.graph.Lock()
			defer qp.graph.Unlock()
			qp.leaveLocked(&c.object)
			return qp.fail(op, err, qp.dev.afterHint(err))
		}
		return nil
	})
}

func (qp *QP) issueAttachCompCounter(c *CompCounter, ops verbs.CompCounterOps) error {
	r := qp.dev.request(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_ATTACH_COMP_CNTR)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE, qp.handle)
	r.Handle(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE, c.handle)
	r.U32(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, uint32(ops))
	return r.Do(qp.dev.file)
}
