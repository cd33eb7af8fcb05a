package uverbs

import (
	"math/bits"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/rss"
)

// WQ is a receive queue that belongs to no QP. The packets of one QP are distributed among the
// WQs of a table ([RWQIndTable]).
//
// Experimental: may change in any release; see docs/stability.md.
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

	mu     driver.Lock // guards the fields below
	state  rss.WQState
	ring   driver.WQ
	closed bool
}

// WQOptions describes a new WQ.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: struct ibv_wq_init_attr
type WQOptions struct {
	MaxWR  uint32 // receives that can be outstanding
	MaxSGE uint32 // SGEs in one
	CQ     *CQ    // required: receives complete on it
	Flags  rss.WQFlags
}

// CreateWQ creates a receive queue in the state RESET.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_create_wq
func (pd *PD) CreateWQ(opts *WQOptions) (*WQ, error) {
	dev := pd.device()
	if dev.provider == nil {
		return nil, dev.noProvider("create", "WQ")
	}
	if opts == nil || opts.CQ == nil {
		return nil, &verbs.Error{Op: "create", Object: "WQ", Device: dev.info.Name, Err: syscall.EINVAL, Hint: "WQOptions must name a CQ"}
	}
	w := &WQ{dev: dev, pd: pd, cq: opts.CQ, cookie: dev.cookie()}
	if err := w.attach("WQ", &pd.object, &w.cq.object); err != nil {
		return nil, err
	}
	if err := w.create(opts); err != nil {
		w.detach()
		return nil, w.fail("create", err, createHint(err))
	}
	w.created(w, w.handle)
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

// Num returns the WQ's number.
func (w *WQ) Num() uint32 { return w.num }

// MaxWR returns the number of receives that the WQ has room for.
func (w *WQ) MaxWR() uint32 { return w.maxWR }

// MaxSGE returns the number of SGEs that a receive may have.
func (w *WQ) MaxSGE() uint32 { return w.maxSGE }

// PostRecv queues buffers for incoming packets. It follows the rules of [QP.PostRecv].
//
// C: ibv_post_wq_recv
func (w *WQ) PostRecv(wrs []verbs.RecvWR) (int, error) {
	const op = "post a receive to"
	w.mu.Lock()
	if w.closed || w.ring == nil {
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

// Close destroys the WQ. Tables that contain it must be closed first.
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
				w.setClosed()
				w.clean()
			}
			return err
		})
	}, w.release)
}

// clean takes the WQ's completions off its CQ after the kernel has put the WQ into RESET or
// destroyed it.
func (w *WQ) clean() {
	w.cq.mu.Lock()
	defer w.cq.mu.Unlock()
	if w.cq.cleaner != nil && !w.cq.closed {
		w.cq.cleaner.Clean(w.ring)
	}
}

// setClosed makes posts fail before the provider gives up the queue.
func (w *WQ) setClosed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

func (w *WQ) release() error {
	w.dev.events.remove(w.cookie)
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

// Modify changes the attributes in mask. Posts wait until Modify is done.
//
// C: ibv_modify_wq
func (w *WQ) Modify(attr *rss.WQAttr, mask rss.WQAttrMask) error {
	if attr == nil {
		return w.fail("modify", syscall.EINVAL, "no attributes")
	}
	return w.using("modify", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := w.modify(attr, mask); err != nil {
			return w.fail("modify", err, w.modifyHint(err, attr, mask))
		}
		return nil
	})
}

func (w *WQ) modify(attr *rss.WQAttr, mask rss.WQAttrMask) error {
	r := &driver.ModifyWQ{From: w.state, To: w.state}
	if mask&rss.WQAttrState != 0 {
		r.To = attr.State
	}
	c := &call{memory: w.memory}
	c.issue = func(u driver.UHW, extra []driver.Attr) error {
		err := w.issueModify(attr, mask, u, extra)
		if err == nil {
			w.state = r.To // even if the provider fails later
			if r.To == rss.WQStateReset {
				w.clean()
			}
		}
		return err
	}
	r.Call = c
	if m, ok := w.ring.(driver.WQModifier); ok {
		return m.Modify(r)
	}
	return c.Do(driver.UHW{})
}

func (w *WQ) issueModify(attr *rss.WQAttr, mask rss.WQAttrMask, u driver.UHW, extra []driver.Attr) error {
	in := &abi.IbUverbsExModifyWq{AttrMask: uint32(mask), WqHandle: w.handle, WqState: uint32(attr.State), CurrWqState: uint32(attr.CurState),
		Flags: uint32(attr.Flags), FlagsMask: uint32(attr.Mask)}
	r := writeCommand(w.dev, ioctl.Extended(abi.IB_USER_VERBS_EX_CMD_MODIFY_WQ), in)
	defer r.Free()
	return w.dev.doWith(r, u, extra)
}

func (w *WQ) modifyHint(err error, attr *rss.WQAttr, mask rss.WQAttrMask) string {
	if mask&rss.WQAttrState != 0 && w.state == rss.WQStateErr && attr.State == rss.WQStateReady {
		return "a WQ goes from ERR to RDY through RESET"
	}
	return createHint(err)
}

// RWQIndTable is a table of WQs. A QP distributes the packets that it receives among them
// ([PD.CreateRSSQP]).
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: struct ibv_rwq_ind_table
type RWQIndTable struct {
	object
	dev         *Device
	handle, num uint32
}

// CreateRWQIndTable creates a table of WQs, whose length must be a power of two. A WQ may occur
// more than once, and in several tables. [verbs.DeviceAttr] has the maximum length.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_create_rwq_ind_table
func (d *Device) CreateRWQIndTable(wqs []*WQ) (*RWQIndTable, error) {
	if bits.OnesCount(uint(len(wqs))) != 1 {
		return nil, &verbs.Error{Op: "create", Object: "WQ table", Device: d.info.Name, Err: syscall.EINVAL, Hint: "the number of WQs must be a power of two"}
	}
	t := &RWQIndTable{dev: d}
	parents := []*object{&d.object}
	for _, w := range wqs {
		if w == nil {
			return nil, &verbs.Error{Op: "create", Object: "WQ table", Device: d.info.Name, Err: syscall.EINVAL, Hint: "a WQ is nil"}
		}
		parents = append(parents, &w.object)
	}
	if err := t.attach("WQ table", parents...); err != nil {
		return nil, err
	}
	if err := t.create(wqs); err != nil {
		t.detach()
		return nil, t.fail("create", err, createHint(err))
	}
	t.created(t, t.handle)
	return t, nil
}

func (t *RWQIndTable) create(wqs []*WQ) error {
	var resp abi.IbUverbsExCreateRwqIndTableResp
	in := abi.IbUverbsExCreateRwqIndTable{LogIndTblSize: uint32(bits.TrailingZeros(uint(len(wqs))))}
	b := abi.Bytes(&in)
	for _, w := range wqs {
		b = append(b, abi.Bytes(&w.handle)...)
	}
	b = append(b, make([]byte, -len(b)&7)...)
	r := ioctl.WriteBytes(uint32(t.dev.info.Driver), ioctl.Extended(abi.IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL), b)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := r.Do(t.dev.file); err != nil {
		return err
	}
	t.handle, t.num = resp.IndTblHandle, resp.IndTblNum
	return nil
}

// Num returns the table's number.
func (t *RWQIndTable) Num() uint32 { return t.num }

// Close destroys the table. QPs that use it must be closed first.
//
// C: ibv_destroy_rwq_ind_table
func (t *RWQIndTable) Close() error {
	if t == nil {
		return closeNil("RWQIndTable")
	}
	return t.close(func() error {
		r := t.dev.request(abi.UVERBS_OBJECT_RWQ_IND_TBL, abi.UVERBS_METHOD_RWQ_IND_TBL_DESTROY)
		defer r.Free()
		r.Handle(abi.UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE, t.handle)
		return r.Do(t.dev.file)
	}, noop)
}

// RSSOptions describes a QP that distributes packets among the WQs of a table.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: struct ibv_qp_init_attr_ex with rwq_ind_tbl and rx_hash_conf
type RSSOptions struct {
	Type  verbs.QPType // QPTypeUD or QPTypeRawPacket, which is the default and needs CAP_NET_RAW
	Table *RWQIndTable // required
	Hash  rss.Hash
	Flags verbs.QPFlags
}

// CreateRSSQP creates a QP without queues of its own, so nothing can be posted to it. It
// distributes its packets among the WQs of a table. Flow rules steer packets to it
// ([QP.CreateFlow]).
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_create_qp_ex with rwq_ind_tbl
func (pd *PD) CreateRSSQP(opts *RSSOptions) (*QP, error) {
	dev := pd.device()
	if dev.provider == nil {
		return nil, dev.noProvider("create", "QP")
	}
	if opts == nil || opts.Table == nil {
		return nil, &verbs.Error{Op: "create", Object: "QP", Device: dev.info.Name, Err: syscall.EINVAL, Hint: "RSSOptions must name a table"}
	}
	qp := &QP{dev: dev, pd: pd, typ: opts.Type, ring: driver.NoQueues{}, cookie: dev.cookie()}
	qp.sends.init(qp)
	qp.setFastPath()
	if qp.typ == 0 {
		qp.typ = verbs.QPTypeRawPacket
	}
	if err := qp.attach("QP", &pd.object, &opts.Table.object); err != nil {
		return nil, err
	}
	if err := qp.createRSS(opts); err != nil {
		qp.detach()
		return nil, qp.fail("create", err, createHint(err))
	}
	qp.created(qp, qp.num.Load())
	return qp, nil
}

func (qp *QP) createRSS(opts *RSSOptions) error {
	creator, ok := qp.dev.provider.(driver.WQCreator)
	if !ok {
		return verbs.ErrNotSupported
	}
	c := qp.dev.creation(nil)
	r := &driver.CreateRSSQP{Call: c, Type: qp.typ, Flags: opts.Flags, Hash: opts.Hash, PD: qp.pd.data}
	c.issue = func(u driver.UHW, extra []driver.Attr) error { return qp.issueCreateRSS(r, opts, u, extra) }
	err := creator.CreateRSSQP(r)
	if err = c.made(err, func() error { return qp.issueDestroy(r.Handle) }); err != nil {
		return err
	}
	qp.memory = c.memory
	qp.dev.events.add(qp.cookie, AsyncEvent{QP: qp})
	return nil
}

func (qp *QP) issueCreateRSS(r *driver.CreateRSSQP, opts *RSSOptions, u driver.UHW, extra []driver.Attr) error {
	var capIn, capOut abi.IbUverbsQpCap
	q := qp.dev.request(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE)
	defer q.Free()
	q.NewObject(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	q.Handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, qp.pd.handle)
	q.Handle(abi.UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, opts.Table.handle)
	q.U64(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, qp.cookie)
	q.Const(abi.UVERBS_ATTR_CREATE_QP_TYPE, uint64(r.Type))
	if r.Flags != 0 {
		q.Flags(abi.UVERBS_ATTR_CREATE_QP_FLAGS, uint32(r.Flags))
	}
	ioctl.In(q, abi.UVERBS_ATTR_CREATE_QP_CAP, &capIn)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &capOut)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &r.Num)
	if err := qp.dev.doWith(q, u, extra); err != nil {
		return err
	}
	r.Handle = q.Created(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	qp.handle = r.Handle
	qp.num.Store(r.Num)
	return nil
}
