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

// Query asks the kernel for the SRQ's state.
//
// C: ibv_query_srq
func (s *SRQ) Query() (*verbs.SRQAttr, error) {
	var resp abi.IbUverbsQuerySrqResp
	r := writeCommand(s.dev, abi.IB_USER_VERBS_CMD_QUERY_SRQ, &abi.IbUverbsQuerySrq{SrqHandle: s.handle})
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := s.command("query", r); err != nil {
		return nil, err
	}
	return &verbs.SRQAttr{MaxWR: resp.MaxWr, MaxSGE: resp.MaxSge, Limit: resp.SrqLimit}, nil
}

// SetLimit arms one EventSRQLimitReached for when fewer than limit receives are
// left; 0 disarms.
//
// C: ibv_modify_srq with IBV_SRQ_LIMIT
func (s *SRQ) SetLimit(limit uint32) error {
	return s.modify("set the limit of", 0, limit)
}

// Resize gives the SRQ room for at least maxWR receives. Those posted stay; a
// limit that was set is disarmed by some drivers. Where the driver can't, the
// error matches ErrNotSupported and nothing has changed.
//
// C: ibv_modify_srq with IBV_SRQ_MAX_WR
func (s *SRQ) Resize(maxWR uint32) error {
	if maxWR == 0 { // which would be no resizing
		return s.fail("resize", syscall.EINVAL, "maxWR is 0")
	}
	return s.modify("resize", maxWR, 0)
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
		return fmt.Sprintf("%d is more than the device allows (DeviceAttr.MaxSRQWR), or less than the receives posted or the limit", maxWR)
	}
	return fmt.Sprintf("%d is more than the SRQ has room for, which is %d", limit, s.maxWR)
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

func (s *SRQ) command(op string, r *ioctl.Request) error {
	return s.using(op, func() error {
		if err := r.Do(s.dev.file); err != nil {
			return s.fail(op, err, "")
		}
		return nil
	})
}

// IB_SRQ_MAX_WR and IB_SRQ_LIMIT of enum ib_srq_attr_mask, which no uapi header
// has.
const (
	srqMaxWR = 1
	srqLimit = 2
)

// Close destroys the SRQ. QPs that use it must be closed before.
//
// C: ibv_destroy_srq
func (s *SRQ) Close() error {
	if s == nil {
		return closeNil("SRQ")
	}
	return s.close(func() error {
		return destroy(s.ring, func() error { return s.issueDestroy(s.handle) })
	}, s.release)
}

func (s *SRQ) release() error {
	s.dev.events.remove(s.cookie)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
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
