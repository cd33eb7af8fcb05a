package uverbs

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// CompCounter counts the completed operations of the QPs that it is attached to. It has two
// numbers: operations that succeeded, and operations that failed. A program that only needs to
// know whether all writes have arrived can wait for a number instead of polling completions.
// The completions themselves are written as without a counter.
//
// The device writes the numbers to memory of the program. Read, ReadErrors and Wait load them
// without a system call. A change by Set or Add may be visible there a moment later. All methods
// may be called concurrently.
//
// EFA has completion counters, since Linux 7.3. Elsewhere errors match [verbs.ErrNotSupported].
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: struct ibv_comp_cntr
type CompCounter struct {
	object
	dev    *Device
	handle uint32
	memory *memory

	// The device writes these, and the memory ends when the counter is closed.
	successes, failures *atomic.Uint64
}

// QueryCompCounterCaps returns the limits of the device's completion counters. A device without
// counters may return zeros.
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
			return d.fail(op, err, d.counterHint(err))
		}
		return nil
	})
	return caps, err
}

// counterHint explains that completion counters are missing, if err says so.
func (d *Device) counterHint(err error) string {
	if !ioctl.Unsupported(err) {
		return createHint(err)
	}
	return fmt.Sprintf("completion counters need Linux 7.3 and a device that has them, and driver %v may not support them", d.info.Driver)
}

// CreateCompCounter creates a completion counter whose numbers are 0. Use
// [QP.AttachCompCounter] to attach it to QPs. The counter pins a page of memory.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_create_comp_cntr
func (d *Device) CreateCompCounter() (*CompCounter, error) {
	if d.provider == nil {
		return nil, d.noProvider("create", "completion counter")
	}
	c := &CompCounter{dev: d}
	if err := c.attach("completion counter", &d.object); err != nil {
		return nil, err
	}
	if err := c.create(); err != nil {
		c.detach()
		return nil, c.fail("create", err, d.counterHint(err))
	}
	c.created(c, c.handle)
	return c, nil
}

func (c *CompCounter) create() (err error) {
	p, ok := c.dev.provider.(driver.CompCounterCreator)
	if !ok {
		return verbs.ErrNotSupported
	}
	call := c.dev.creation(c.issueCreate)
	c.memory = call.memory
	c.successes, c.failures, err = p.CreateCompCounter(call)
	return call.made(err, c.issueDestroy)
}

func (c *CompCounter) issueCreate(u driver.UHW, extra []driver.Attr) error {
	r := c.dev.request(abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_CREATE)
	defer r.Free()
	r.NewObject(abi.UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE)
	if err := c.dev.doWith(r, u, extra); err != nil {
		return err
	}
	c.handle = r.Created(abi.UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE)
	return nil
}

func (c *CompCounter) issueDestroy() error {
	r := c.dev.request(abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE, c.handle)
	return r.Do(c.dev.file)
}

// Read returns the number of operations that succeeded.
//
// C: ibv_read_comp_cntr
func (c *CompCounter) Read() (uint64, error) {
	n, _, err := c.load("read")
	return n, err
}

// ReadErrors returns the number of operations that failed.
//
// C: ibv_read_err_comp_cntr
func (c *CompCounter) ReadErrors() (uint64, error) {
	_, n, err := c.load("read")
	return n, err
}

// load keeps the memory while it reads both numbers.
func (c *CompCounter) load(op string) (successes, failures uint64, err error) {
	c.calls.RLock()
	defer c.calls.RUnlock()
	if c.successes == nil {
		return 0, 0, c.fail(op, verbs.ErrClosed, "")
	}
	failures = c.failures.Load()
	return c.successes.Load(), failures, nil
}

// A wait loads a number so often before it pauses, and each pause is twice as long as the one
// before, up to a limit.
const (
	counterLoads      = 1000
	firstCounterPause = 10 * time.Microsecond
	lastCounterPause  = time.Millisecond
)

// Wait blocks the goroutine until at least value operations have succeeded, and returns their
// number. It returns an error if an operation fails meanwhile, if ctx is done, or if the counter is
// closed. No interrupt announces a change: Wait polls the number, after some microseconds with
// pauses of up to a millisecond. A number that has begun again at 0 is smaller than value.
func (c *CompCounter) Wait(ctx context.Context, value uint64) (uint64, error) {
	const op = "wait for"
	_, before, err := c.load(op)
	if err != nil {
		return 0, err
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for loads, next := 0, firstCounterPause; ; loads++ {
		n, failures, err := c.load(op)
		switch {
		case err != nil || n >= value:
			return n, err
		case failures != before:
			return n, c.fail(op, fmt.Errorf("%d operations have failed, of which %d before", failures, before), "the completions say why")
		case ctx.Err() != nil:
			return n, c.fail(op, ctx.Err(), "")
		case loads < counterLoads:
			runtime.Gosched()
			continue
		}
		pause.Reset(next)
		next = min(2*next, lastCounterPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// Set sets the number of operations that succeeded, to at most CompCounterCaps.MaxValue. Operations
// that complete meanwhile may not be counted.
//
// C: ibv_set_comp_cntr
func (c *CompCounter) Set(value uint64) error {
	return c.modify(abi.IB_UVERBS_COMP_CNTR_ENTRY_COMP, abi.IB_UVERBS_COMP_CNTR_MODIFY_OP_SET, value)
}

// SetErrors sets the number of operations that failed. The rules of Set apply.
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
	return c.close(c.issueDestroy, func() error {
		c.successes, c.failures = nil, nil
		return c.memory.free()
	})
}

// AttachCompCounter makes c count operations of the QP until the QP is closed. Several QPs may share a
// counter, and a QP may have several, but only one for each operation. The counter must stay open for
// as long. A device may support only some operations ([verbs.CompCounterCaps]). Attach the counter
// before the QP leaves INIT: devices may refuse other states.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_qp_attach_comp_cntr
func (qp *QP) AttachCompCounter(c *CompCounter, ops verbs.CompCounterOps) error {
	const op = "attach a completion counter to"
	return qp.using(op, func() error {
		if c == nil || c.isZero() {
			return qp.fail(op, syscall.EINVAL, "no counter given")
		}
		if err := qp.join(&c.object); err != nil {
			return err
		}
		if err := qp.issueAttachCompCounter(c, ops); err != nil {
			qp.graph.Lock()
			defer qp.graph.Unlock()
			qp.leaveLocked(&c.object)
			return qp.fail(op, err, qp.counterHint(err))
		}
		return nil
	})
}

func (qp *QP) counterHint(err error) string {
	if err == syscall.EBUSY {
		return "the QP has a counter for one of the operations"
	}
	return qp.dev.counterHint(err)
}

func (qp *QP) issueAttachCompCounter(c *CompCounter, ops verbs.CompCounterOps) error {
	r := qp.dev.request(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_ATTACH_COMP_CNTR)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE, qp.handle)
	r.Handle(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE, c.handle)
	r.U32(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, uint32(ops))
	return r.Do(qp.dev.file)
}
