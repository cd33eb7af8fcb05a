package fakeverbs

import (
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// createTarget reads what the driver wants to know of a target QP, which is the same as of
// others, and of which no queue counts. librdmacm asks for room to receive all the same, and
// libmlx5 then tells the size of a receive queue that it does not make.
func (m *mlx5) createTarget(r *ioctl.Request) error {
	const call = "QP_CREATE"
	in, err := mlx5Input[abi.Mlx5IbCreateQp](m, call, r, 48)
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
	if !m.k.MLX5.OldBytes {
		in.Uidx &= uint32(m.version) * 0xffffff
		m.wantZero(call, "what a target QP does not need", in.BufAddr|in.DbAddr|uint64(in.Flags|in.BfregIndex|in.Uidx|in.EceOptions)|
			uint64(in.Reserved)|uint64(in.DciStreams.LogNumConcurent)|uint64(in.DciStreams.LogNumErrored))
	}
	return mlx5Answer(m, call, r, abi.Mlx5IbCreateQpResp{})
}

// badIndex: with one version of completions user space chooses a number that they name an
// object by, and with the other there is none.
func (m *mlx5) badIndex(index uint32) bool {
	const none = 0xffffff
	return m.version == 0 && index != none || m.version == 1 && index >= none
}

// xrcIndex takes the index of an SRQ of XRC, which is one of those of queue pairs.
func (m *mlx5) xrcIndex(s *MLX5SRQ, index uint32) error {
	if err := m.takeIndex("SRQ_CREATE", index); err != nil {
		return err
	}
	s.xrc, s.index = true, index
	return nil
}

// takeIndex is for objects beside queue pairs.
func (m *mlx5) takeIndex(call string, index uint32) error {
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
func (c *mlx5Reader) sharedNumber() {
	b := c.take("the number of an SRQ", 16)
	c.SRQN = binary.BigEndian.Uint32(b)
	if !c.q.m.k.MLX5.OldBytes {
		c.wantZeros("the number of an SRQ", b[4:])
	}
	if c.SRQN>>24 != 0 {
		c.note("an SRQ's number of %#x", c.SRQN)
	}
}

// mlx5Target has a target QP receive through an SRQ of its domain, whose process may be
// another. The lock is that of the SRQ's kernel.
type mlx5Target struct {
	gone
	qp  *QP // as the SRQ's process sees it
	srq *SRQ
}

func (t *mlx5Target) nextRecv() (*Recv, bool) { return t.srq.MLX5.take() }

func (t *mlx5Target) recvDone(r *Recv, wc abi.IbUverbsWc, solicited bool) {
	c := mlx5Received(r, &wc, solicited)
	s := t.srq.MLX5
	s.done(r.index)
	c.QPN, c.Counter, c.Queue = t.qp.Num, uint16(r.index), s.index
	if s.m.version == 0 {
		c.Queue = s.Num
	}
	t.srq.CQ.MLX5.complete(c)
}

// fail is the end of the target, wherever it is.
func (t *mlx5Target) fail() {
	_ = t.qp.shared(func() error {
		t.qp.state = abi.IB_QPS_ERR
		return nil
	})
}

// Through is a target QP as the SRQ of a number sees it: with the memory and the keys of the
// SRQ's PD. It is nil if the domain has no such SRQ.
func (qp *QP) Through(srqn uint32) *QP {
	for _, k := range qp.k.device.Openings() {
		for _, s := range k.SRQs() {
			if s.CQ == nil || s.Num != srqn || s.domain != qp.domain || s.MLX5 == nil {
				continue
			}
			view := &QP{k: k, Num: qp.Num, Type: qp.Type, PD: s.PD, target: qp.target, domain: qp.domain}
			view.queues = &mlx5Target{qp: view, srq: s}
			_ = view.shared(func() error { return nil }) // has its attributes
			return view
		}
	}
	return nil
}
