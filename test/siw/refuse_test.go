//go:build vm

package siw

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/verbs"
)

// TestPostRefused pins the error of each work request that PostSend refuses. None
// of them harms the connection.
func TestPostRefused(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	c, s := connect(t, kit.Setup{}, kit.Setup{Recvs: 1})
	sge := c.MR.SGE(kit.SendFrom, 8)
	for _, test := range []struct {
		wr   verbs.SendWR
		is   error
		want string
	}{
		{verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{sge, sge}}, verbs.ErrInvalidWR,
			"invalid work request: 2 SGEs, but the queue takes at most 1"},
		{verbs.SendWR{Opcode: verbs.OpRDMARead}, verbs.ErrInvalidWR,
			"invalid work request: a read on siw takes exactly one SGE"},
		{verbs.SendWR{Opcode: verbs.OpRDMARead, Flags: verbs.SendFence, SGL: []verbs.SGE{sge}}, verbs.ErrInvalidWR,
			"invalid work request: siw can't fence a read"},
		{verbs.SendWR{Opcode: verbs.OpSend, Inline: make([]byte, 81)}, verbs.ErrInvalidWR,
			"invalid work request: 81 bytes inline, but siw takes at most 80 (send more from registered memory, with SGL)"},
		{verbs.SendWR{Opcode: verbs.OpSend, Inline: make([]byte, 8), SGL: []verbs.SGE{sge}}, verbs.ErrInvalidWR,
			"invalid work request: both SGL and Inline are set"},
		{verbs.SendWR{Opcode: verbs.OpSendWithInv, Inline: make([]byte, 8)}, verbs.ErrInvalidWR,
			"invalid work request: siw takes inline data for SEND and RDMA_WRITE only"},
		{verbs.SendWR{Opcode: verbs.OpSendImm, SGL: []verbs.SGE{sge}}, verbs.ErrNotSupported,
			"not supported: siw does not support SEND_WITH_IMM"},
		{verbs.SendWR{Opcode: verbs.OpCompareSwap, SGL: []verbs.SGE{sge}}, verbs.ErrNotSupported,
			"not supported: siw does not support ATOMIC_CMP_AND_SWP"},
		{verbs.SendWR{Opcode: 99, SGL: []verbs.SGE{sge}}, verbs.ErrNotSupported,
			"not supported: siw does not support Opcode(99)"},
	} {
		n, err := c.QP().PostSend([]verbs.SendWR{test.wr})
		device := kit.DummyLink
		if test.is == verbs.ErrNotSupported {
			device += " (driver siw)"
		}
		want := fmt.Sprintf("post a send to QP %d on %s: %s", c.QP().QPN(), device, test.want)
		if n != 0 || err == nil || err.Error() != want || !errors.Is(err, test.is) {
			t.Errorf("%d posted, %v\nwant %s", n, err, want)
		}
	}
	c.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{sge}})
	c.Sent("1 SEND success")
	s.Got("1000 RECV success 8")
}

func TestReadWithTwoSGEs(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	var two kit.Setup
	two.Cfg.QP.Cap.MaxSendSGE = 2
	c, s := connect(t, two, kit.Setup{})
	sge := c.MR.SGE(0, 8)
	_, err := c.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{sge, sge}, RemoteAddr: s.MR.Addr(), RKey: s.MR.RKey()}})
	if !errors.Is(err, verbs.ErrInvalidWR) || !strings.HasSuffix(err.Error(), "a read on siw takes exactly one SGE") {
		t.Error(err)
	}
}

// TestQueueFull checks that of a batch that is too long as much is posted as there is room for, and
// all of that completes.
func TestQueueFull(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	c, s := connect(t, kit.Setup{}, kit.Setup{})
	room := int(s.QP().Cap().MaxRecvWR)
	recvs := make([]verbs.RecvWR, room+1)
	for i := range recvs {
		recvs[i] = s.Recv(0)
	}
	n, err := s.QP().PostRecv(recvs)
	want := fmt.Sprintf("post a receive to QP %d on %s: queue full", s.QP().QPN(), kit.DummyLink)
	if n != room || !errors.Is(err, verbs.ErrQueueFull) || err.Error() != want {
		t.Errorf("%d receives posted of %d: %v", n, room, err)
	}
	room = int(c.QP().Cap().MaxSendWR)
	sends := make([]verbs.SendWR, room+1)
	for i := range sends {
		sends[i] = verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.MR.SGE(0, 8)}}
	}
	// The kernel does not know of the queue yet, so no request leaves it meanwhile.
	n, err = c.QP().PostSend(sends)
	want = fmt.Sprintf("post a send to QP %d on %s: queue full", c.QP().QPN(), kit.DummyLink)
	if n != room || !errors.Is(err, verbs.ErrQueueFull) || err.Error() != want {
		t.Errorf("%d sends posted of %d: %v", n, room, err)
	}
	for i := range room {
		c.Sent(fmt.Sprintf("%d SEND success", i))
		s.Got("1000 RECV success 8")
	}
}

// TestNotConnected checks that a QP takes receives before it is connected, but no sends.
func TestNotConnected(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	o := newObjects(t)
	qp := o.qp(t)
	sge := []verbs.SGE{o.mr.SGE(0, 8)}
	n, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGL: sge}})
	want := fmt.Sprintf("post a send to QP %d on %s: transport endpoint is not connected: the QP is not connected", qp.QPN(), kit.DummyLink)
	if n != 0 || !errors.Is(err, syscall.ENOTCONN) || err.Error() != want {
		t.Errorf("%d posted, %v\nwant %s", n, err, want)
	}
	if n, err := qp.PostRecv([]verbs.RecvWR{{SGL: sge}}); n != 1 || err != nil {
		t.Errorf("%d receives posted, %v", n, err)
	}
	if _, err := qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{sge[0], sge[0]}}}); !errors.Is(err, verbs.ErrInvalidWR) {
		t.Error(err)
	}
	err = qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState)
	want = fmt.Sprintf("modify QP %d on %s: invalid argument: an iWARP QP enters RTS only when it is connected: use package rdmacm", qp.QPN(), kit.DummyLink)
	if err == nil || cmp.Diff(want, err.Error()) != "" {
		t.Errorf("%v\nwant %s", err, want)
	}
}
