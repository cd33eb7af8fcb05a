package uverbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// SRQ is a shared receive queue. Its QPs take their receives from it.
//
// C: struct ibv_srq
type SRQ struct {
	object
	dev    *Device
	pd     *PD
	handle uint32
	cookie uint64
	maxSGE uint32
	num    uint32
	xrcd   *XRCD // nil unless the SRQ belongs to an XRC domain, as is cq
	cq     *CQ

	memory *memory

	mu     driver.Lock // guards the fields below
	maxWR  uint32
	ring   driver.SRQ
	closed bool
}

// SRQOptions describes a new SRQ.
//
// C: struct ibv_srq_init_attr
type SRQOptions struct {
	MaxWR  uint32 // receives that can be outstanding
	MaxSGE uint32 // SGEs in one
	Limit  uint32 // raise verbs.EventSRQLimitReached when fewer receives are left; 0 means never

	// XRCD is set for an SRQ of an XRC domain, which serves only the domain's target QPs. Its
	// receives complete on CQ. Other SRQs have no CQ.
	XRCD *XRCD
	CQ   *CQ
}

// CreateSRQ creates a shared receive queue.
//
// C: ibv_create_srq
func (pd *PD) CreateSRQ(opts *SRQOptions) (*SRQ, error) {
	dev := pd.device()
	if dev.provider == nil {
		return nil, dev.noProvider("create", "SRQ")
	}
	if opts == nil {
		opts = &SRQOptions{}
	}
	s := &SRQ{dev: dev, pd: pd, cookie: dev.cookie(), xrcd: opts.XRCD, cq: opts.CQ}
	if (s.xrcd == nil) != (s.cq == nil) {
		return nil, &verbs.Error{Op: "create", Object: "SRQ", Device: dev.info.Name, Err: syscall.EINVAL, Hint: "SRQOptions must name both XRCD and CQ, or neither"}
	}
	if err := s.attach("SRQ", &pd.object, s.xrcd.asObject(), s.cq.asObject()); err != nil {
		return nil, err
	}
	if err := s.create(opts); err != nil {
		s.detach()
		return nil, s.fail("create", err, s.createHint(err, opts))
	}
	s.created(s, s.handle)
	return s, nil
}

func (s *SRQ) create(opts *SRQOptions) error {
	c := s.dev.creation(nil)
	x := &driver.CreateXRCSRQ{CreateSRQ: driver.CreateSRQ{Call: c, MaxWR: opts.MaxWR, MaxSGE: opts.MaxSGE, PD: s.pd.data, Lock: &s.mu}}
	r := &x.CreateSRQ
	c.issue = func(u driver.UHW, extra []driver.Attr) error {
		err := s.issueCreate(r, opts.Limit, u, extra)
		x.Num = s.num
		return err
	}
	ring, err := s.askProvider(x)
	if err = c.made(err, func() error { return s.issueDestroy(r.Handle) }); err != nil {
		return err
	}
	s.handle, s.maxWR, s.maxSGE = r.Handle, r.MaxWR, r.MaxSGE
	s.ring, s.memory = ring, c.memory
	s.dev.events.add(s.cookie, AsyncEvent{SRQ: s})
	return nil
}

func (s *SRQ) askProvider(r *driver.CreateXRCSRQ) (driver.SRQ, error) {
	if s.xrcd == nil {
		if creator, ok := s.dev.provider.(driver.SRQCreator); ok {
			return creator.CreateSRQ(&r.CreateSRQ)
		}
		return nil, verbs.ErrNotSupported
	}
	creator, ok := s.dev.provider.(driver.XRCCreator)
	if !ok {
		return nil, verbs.ErrNotSupported
	}
	r.CQ = s.cq.ring
	return creator.CreateXRCSRQ(r)
}

func (s *SRQ) issueCreate(r *driver.CreateSRQ, limit uint32, u driver.UHW, extra []driver.Attr) error {
	q := s.dev.request(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE)
	defer q.Free()
	q.NewObject(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE)
	q.Handle(abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, s.pd.handle)
	q.U64(abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, s.cookie)
	q.U32(abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR, r.MaxWR)
	q.U32(abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE, r.MaxSGE)
	q.U32(abi.UVERBS_ATTR_CREATE_SRQ_LIMIT, limit)
	if s.xrcd == nil {
		q.Const(abi.UVERBS_ATTR_CREATE_SRQ_TYPE, uint64(abi.IB_UVERBS_SRQT_BASIC))
	} else {
		q.Const(abi.UVERBS_ATTR_CREATE_SRQ_TYPE, abi.IB_UVERBS_SRQT_XRC)
		q.Handle(abi.UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, s.xrcd.handle)
		q.Handle(abi.UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, s.cq.handle)
		ioctl.Out(q, abi.UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &s.num)
	}
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &r.MaxWR)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &r.MaxSGE)
	if err := s.dev.doWith(q, u, extra); err != nil {
		return err
	}
	r.Handle = q.Created(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE)
	return nil
}

// MaxWR returns the number of receives that the SRQ has room for.
func (s *SRQ) MaxWR() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxWR
}

// MaxSGE returns the number of SGEs that a receive may have.
func (s *SRQ) MaxSGE() uint32 { return s.maxSGE }

// Num returns the number by which a peer's work requests name an SRQ of an XRC domain. It is 0
// for other SRQs.
//
// C: ibv_get_srq_num
func (s *SRQ) Num() uint32 { return s.num }

// PostRecv queues buffers for incoming sends. It follows the rules of [QP.PostRecv].
//
// C: ibv_post_srq_recv
func (s *SRQ) PostRecv(wrs []verbs.RecvWR) (int, error) {
	s.mu.Lock()
	if s.closed || s.ring == nil {
		s.mu.Unlock()
		return 0, s.fail("post a receive to", verbs.ErrClosed, "")
	}
	n, err := s.ring.PostRecv(wrs)
	s.mu.Unlock()
	if err != nil {
		return n, s.fail("post a receive to", err, "")
	}
	return n, nil
}

// asObject returns nil for a nil SRQ.
func (s *SRQ) asObject() *object {
	if s == nil {
		return nil
	}
	return &s.object
}

// Query returns the SRQ's state, as the kernel reports it.
//
// C: ibv_query_srq
func (s *SRQ) Query() (*verbs.SRQAttr, error) {
	var resp abi.IbUverbsQuerySrqResp
	err := s.using("query", func() error {
		r := writeCommand(s.dev, abi.IB_USER_VERBS_CMD_QUERY_SRQ, &abi.IbUverbsQuerySrq{SrqHandle: s.handle})
		defer r.Free()
		ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
		if err := r.Do(s.dev.file); err != nil {
			return s.fail("query", err, "")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &verbs.SRQAttr{MaxWR: resp.MaxWr, MaxSGE: resp.MaxSge, Limit: resp.SrqLimit}, nil
}

// SetLimit makes the SRQ raise verbs.EventSRQLimitReached once, when fewer than limit receives are
// left. A limit of 0 disarms it.
//
// C: ibv_modify_srq with IBV_SRQ_LIMIT
func (s *SRQ) SetLimit(limit int) error {
	if limit < 0 {
		return s.fail("set the limit of", syscall.EINVAL, "the limit is negative")
	}
	return s.modify("set the limit of", 0, entryCount(limit))
}

// Resize changes the size of the SRQ to at least maxWR receives. Receives that were posted stay.
// Some drivers disarm the limit. If the driver can't resize SRQs, the error matches
// ErrNotSupported and nothing has changed.
//
// C: ibv_modify_srq with IBV_SRQ_MAX_WR
func (s *SRQ) Resize(maxWR int) error {
	if maxWR < 1 { // the provider would take 0 for a change of the limit
		return s.fail("resize", syscall.EINVAL, "maxWR is below 1")
	}
	return s.modify("resize", entryCount(maxWR), 0)
}

func (s *SRQ) modify(op string, maxWR, limit uint32) error {
	return s.using(op, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			return s.fail(op, verbs.ErrClosed, "")
		}
		c := s.dev.replacement(s.memory)
		r := &driver.ModifySRQ{Call: c, MaxWR: maxWR, Limit: limit}
		c.issue = func(u driver.UHW, extra []driver.Attr) error { return s.issueModify(r, u, extra) }
		if err := c.replaced(s.memory, s.carryOut(r)); err != nil {
			return s.fail(op, err, s.modifyHint(err, maxWR, limit))
		}
		if maxWR > 0 {
			s.maxWR = r.MaxWR
		}
		return nil
	})
}

func (s *SRQ) carryOut(r *driver.ModifySRQ) error {
	if m, ok := s.ring.(driver.SRQModifier); ok {
		return m.Modify(r)
	}
	if r.MaxWR > 0 {
		return verbs.ErrNotSupported
	}
	return r.Do(driver.UHW{})
}

func (s *SRQ) modifyHint(err error, maxWR, limit uint32) string {
	switch {
	case !errors.Is(err, syscall.EINVAL):
		return ""
	case maxWR > 0:
		return fmt.Sprintf("%d is more than the device allows (DeviceAttr.MaxSRQWR), or less than the number of posted receives or the limit", maxWR)
	}
	return fmt.Sprintf("%d is more than the SRQ's capacity of %d", limit, s.maxWR)
}

func (s *SRQ) issueModify(r *driver.ModifySRQ, u driver.UHW, extra []driver.Attr) error {
	in := &abi.IbUverbsModifySrq{SrqHandle: s.handle, AttrMask: srqLimit, SrqLimit: r.Limit}
	if r.MaxWR > 0 {
		in.AttrMask, in.MaxWr, in.SrqLimit = srqMaxWR, r.MaxWR, 0
	}
	q := writeCommand(s.dev, abi.IB_USER_VERBS_CMD_MODIFY_SRQ, in)
	defer q.Free()
	return s.dev.doWith(q, u, extra)
}

// IB_SRQ_MAX_WR and IB_SRQ_LIMIT of enum ib_srq_attr_mask. No uapi header has them.
const (
	srqMaxWR = 1
	srqLimit = 2
)

// Close destroys the SRQ. QPs that use it must be closed first.
//
// C: ibv_destroy_srq
func (s *SRQ) Close() error {
	if s == nil {
		return closeNil("SRQ")
	}
	return s.close(func() error {
		return destroy(s.ring, func() error {
			err := s.issueDestroy(s.handle)
			if err == nil {
				s.setClosed()
			}
			return err
		})
	}, s.release)
}

// setClosed makes posts fail before the provider gives up the queue.
func (s *SRQ) setClosed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *SRQ) release() error {
	s.dev.events.remove(s.cookie)
	return s.memory.free()
}

func (s *SRQ) issueDestroy(handle uint32) error {
	var resp abi.IbUverbsDestroySrqResp
	r := s.dev.request(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_SRQ_HANDLE, handle)
	ioctl.Out(r, abi.UVERBS_ATTR_DESTROY_SRQ_RESP, &resp)
	return r.Do(s.dev.file)
}
