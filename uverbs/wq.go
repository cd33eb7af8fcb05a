package uverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/rss"
)

// WQ is a receive queue without a QP. A table of such queues ([RWQIndTable]) takes the packets
// of one QP, each queue a part of them.
//
// C: struct ibv_wq
type WQ struct {
	object
	dev         *Device
	pd          *PD
	cq          *CQ
	handle, num uint32
	maxWR       uint32
	maxSGE      uint32
	cookie      uint64
	memory      *memory

	mu     driver.Lock // guards what follows
	state  rss.WQState
	ring   driver.WQ
	closed bool
}

// WQOptions describe a new WQ.
//
// C: struct ibv_wq_init_attr
type WQOptions struct {
	MaxWR  uint32 // receives that can be outstanding
	MaxSGE uint32 // SGEs in one
	CQ     *CQ    // where they complete; needed
	Flags  rss.WQFlags
}

// CreateWQ makes a receive queue, in the state RESET.
//
// C: ibv_create_wq
func (pd *PD) CreateWQ(opts *WQOptions) (*WQ, error) {
	dev := pd.dev
	if dev.provider == nil {
		return nil, dev.noProvider("create", "WQ")
	}
	if opts == nil || opts.CQ == nil {
		return nil, &Error{Op: "create", Object: "WQ", Device: dev.info.Name, Err: syscall.EINVAL, Hint: "WQOptions must name a CQ"}
	}
	w := &WQ{dev: dev, pd: pd, cq: opts.CQ, cookie: dev.cookie()}
	if err := w.attach("WQ", &pd.object, &w.cq.object); err != nil {
		return nil, err
	}
	if err := w.create(opts); err != nil {
		w.detach()
		return nil, w.fail("create", err, createHint(err))
	}
	w.setNumber(w.handle)
	return w, nil
}

func (w *WQ) create(opts *WQOptions) error {
	creator, ok := w.dev.provider.(driver.WQCreator)
	if !ok {
		return verbs.ErrNotSupported
	}
	c := w.dev.creation(nil)
	r := &driver.CreateWQ{Call: c, MaxWR: opts.MaxWR, MaxSGE: opts.MaxSGE, Flags: opts.Flags, PD: w.pd.data, CQ: w.cq.ring}
	c.issue = func(u driver.UHW, extra []driver.Attr) error { return w.issueCreate(r, u, extra) }
	ring, err := creator.CreateWQ(r)
	if err = c.made(err, func() error { return w.issueDestroy(r.Handle) }); err != nil {
		return err
	}
	w.handle, w.num, w.maxWR, w.maxSGE = r.Handle, r.Num, r.MaxWR, r.MaxSGE
	w.ring, w.memory = ring, c.memory
	w.dev.events.add(w.cookie, AsyncEvent{WQ: w})
	return nil
}

func (w *WQ) issueCreate(r *driver.CreateWQ, u driver.UHW, extra []driver.Attr) error {
	q := w.dev.request(abi.UVERBS_OBJECT_WQ, abi.UVERBS_METHOD_WQ_CREATE)
	defer q.Free()
	q.NewObject(abi.UVERBS_ATTR_CREATE_WQ_HANDLE)
	q.Handle(abi.UVERBS_ATTR_CREATE_WQ_PD_HANDLE, w.pd.handle)
	q.Handle(abi.UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, w.cq.handle)
	q.U64(abi.UVERBS_ATTR_CREATE_WQ_USER_HANDLE, w.cookie)
	q.Const(abi.UVERBS_ATTR_CREATE_WQ_TYPE, uint64(abi.IB_UVERBS_WQT_RQ))
	q.U32(abi.UVERBS_ATTR_CREATE_WQ_MAX_WR, r.MaxWR)
	q.U32(abi.UVERBS_ATTR_CREATE_WQ_MAX_SGE, r.MaxSGE)
	q.Flags(abi.UVERBS_ATTR_CREATE_WQ_FLAGS, uint32(r.Flags))
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, &r.MaxWR)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, &r.MaxSGE)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, &r.Num)
	if err := w.dev.doWith(q, u, extra); err != nil {
		return err
	}
	r.Handle = q.Created(abi.UVERBS_ATTR_CREATE_WQ_HANDLE)
	return nil
}

// Num is the WQ's number.
func (w *WQ) Num() uint32 { return w.num }

// MaxWR is the number of receives that the WQ has room for.
func (w *WQ) MaxWR() uint32 { return w.maxWR }

// MaxSGE is the number of SGEs that a receive may have.
func (w *WQ) MaxSGE() uint32 { return w.maxSGE }

// PostRecv queues buffers, with the rules of [QP.PostSend].
//
// C: ibv_post_wq_recv
func (w *WQ) PostRecv(wrs []verbs.RecvWR) (int, error) {
	const op = "post a receive to"
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return 0, w.fail(op, verbs.ErrClosed, "")
	}
	n, err := w.ring.PostRecv(wrs)
	w.mu.Unlock()
	if err != nil {
		return n, w.fail(op, err, "")
	}
	return n, nil
}

// Close destroys the WQ. Tables that it is in must be closed before.
//
// C: ibv_destroy_wq
func (w *WQ) Close() error {
	if w == nil {
		return closeNil("WQ")
	}
	return w.close(func() error {
		return destroy(w.ring, func() error {
			err := w.issueDestroy(w.handle)
			if err == nil {
				w.clean()
			}
			return err
		})
	}, w.release)
}

// clean takes the WQ's completions off its CQ, when the kernel has put it into RESET or
// destroyed it.
func (w *WQ) clean() {
	w.cq.mu.Lock()
	defer w.cq.mu.Unlock()
	if w.cq.cleaner != nil && !w.cq.closed {
		w.cq.cleaner.Clean(w.ring)
	}
}

func (w *WQ) release() error {
	w.dev.events.remove(w.cookie)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return w.memory.free()
}

func (w *WQ) issueDestroy(handle uint32) error {
	var reported uint32
	r := w.dev.request(abi.UVERBS_OBJECT_WQ, abi.UVERBS_METHOD_WQ_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_WQ_HANDLE, handle)
	ioctl.Out(r, abi.UVERBS_ATTR_DESTROY_WQ_RESP, &reported)
	return r.Do(w.dev.file)
}
