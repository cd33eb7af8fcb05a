package mlx5

import (
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// CreateTarget reads what the driver wants to know of a target QP, which is the same as of
// others, and of which no queue counts. librdmacm asks for room to receive all the same, and
// libmlx5 then tells the size of a receive queue that it does not make.
func (m *model) CreateTarget(r *ioctl.Request) error {
	const call = "QP_CREATE"
	in, err := input[abi.Mlx5IbCreateQp](m, call, r, 48)
	switch {
	case err != nil:
		return err
	case m.badIndex(in.Uidx):
		return syscall.EINVAL
	}
	var asked abi.IbUverbsQpCap
	ioctl.Argument(r, abi.UVERBS_ATTR_CREATE_QP_CAP, &asked)
	m.wantZero(call, "a queue of a target QP", uint64(in.SqWqeCount)|in.SqBufAddr)
	if asked.MaxRecvWr == 0 {
		m.wantZero(call, "a receive queue of a target QP", uint64(in.RqWqeCount)|uint64(in.RqWqeShift))
	}
	if !m.options.OldBytes {
		in.Uidx &= uint32(m.version) * 0xffffff
		m.wantZero(call, "what a target QP does not need", in.BufAddr|in.DbAddr|uint64(in.Flags|in.BfregIndex|in.Uidx|in.EceOptions)|
			uint64(in.Reserved)|uint64(in.DciStreams.LogNumConcurent)|uint64(in.DciStreams.LogNumErrored))
	}
	return answer(m, call, r, abi.Mlx5IbCreateQpResp{})
}

// badIndex: with one version of completions user space chooses a number that they name an
// object by, and with the other there is none.
func (m *model) badIndex(index uint32) bool {
	const none = 0xffffff
	return m.version == 0 && index != none || m.version == 1 && index >= none
}

// xrcIndex takes the index of an SRQ of XRC, which is one of those of queue pairs.
func (m *model) xrcIndex(s *SRQ, index uint32) error {
	if err := m.takeIndex("SRQ_CREATE", index); err != nil {
		return err
	}
	s.xrc, s.index = true, index
	return nil
}

// takeIndex is for objects beside queue pairs.
func (m *model) takeIndex(call string, index uint32) error {
	if m.badIndex(index) {
		return syscall.EINVAL
	}
	if m.isTaken(index) {
		m.note("%s: index %d is that of another object", call, index)
	}
	m.indexes[index] = true
	return nil
}

// sharedNumber reads which SRQ of the peer's a send is for.
func (c *reader) sharedNumber() {
	b := c.take("the number of an SRQ", 16)
	c.SRQN = binary.BigEndian.Uint32(b)
	if !c.q.m.options.OldBytes {
		c.wantZeros("the number of an SRQ", b[4:])
	}
	if c.SRQN>>24 != 0 {
		c.note("an SRQ's number of %#x", c.SRQN)
	}
}

// target has a target QP receive through an SRQ of its domain, whose process may be
// another. The lock is that of the SRQ's kernel.
type target struct {
	fakeverbs.Gone
	qp  *fakeverbs.QP // as the SRQ's process sees it
	srq *fakeverbs.SRQ
}

func (t *target) NextRecv() (*fakeverbs.Recv, bool) { return SRQOf(t.srq).take() }

func (t *target) RecvDone(r *fakeverbs.Recv, wc abi.IbUverbsWc, solicited bool) {
	c := received(r, &wc, solicited)
	s := SRQOf(t.srq)
	s.done(r.Index)
	c.QPN, c.Counter, c.Queue = t.qp.Num, uint16(r.Index), s.index
	if s.m.version == 0 {
		c.Queue = s.Num
	}
	CQOf(t.srq.CQ).complete(c)
}

// EnterError is the end of the target, wherever it is.
func (t *target) EnterError() {
	_ = t.qp.Shared(func() error {
		t.qp.CurState = abi.IB_QPS_ERR
		return nil
	})
}

// Target implements [targetQueue].
func (s *SRQ) Target(view *fakeverbs.QP, srq *fakeverbs.SRQ) fakeverbs.Queues {
	return &target{qp: view, srq: srq}
}
