package erdma

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRecv goes around the queue many times, with all that a completion of a receive can
// say.
func TestRecv(t *testing.T) {
	w := newWorld(t, nil)
	arrivals := []struct {
		kernel abi.IbUverbsWc
		want   verbs.WC
	}{
		{abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: 5}, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 5}},
		{abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: 6, WcFlags: abi.IB_WC_WITH_IMM, Ex: be32(imm)},
			verbs.WC{Opcode: verbs.WCRecv, ByteLen: 6, Flags: verbs.WCWithImm, Imm: imm}},
		{abi.IbUverbsWc{Opcode: abi.IB_WC_RECV_RDMA_WITH_IMM, ByteLen: 7, WcFlags: abi.IB_WC_WITH_IMM, Ex: be32(imm)},
			verbs.WC{Opcode: verbs.WCRecvRDMAWithImm, ByteLen: 7, Flags: verbs.WCWithImm, Imm: imm}},
		{abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: 8, WcFlags: abi.IB_WC_WITH_INVALIDATE, Ex: inv},
			verbs.WC{Opcode: verbs.WCRecv, ByteLen: 8, Flags: verbs.WCWithInv, Imm: inv}},
	}
	for id := range uint64(70) {
		wr := verbs.RecvWR{WRID: id, SGL: sges(int(id % 2))}
		w.postRecv(t, wr)
		r, ok := w.kqp.TakeRecv()
		if !ok || len(r.SGL) != len(wr.SGL) || len(wr.SGL) > 0 && r.SGL[0] != fakeverbs.SGE(wr.SGL[0]) {
			t.Fatalf("the device finds %+v, %v", r, ok)
		}
		a := arrivals[id%4]
		w.kqp.Received(r, &a.kernel, false)
		a.want.WRID, a.want.QPN = id, w.qp.QPN()
		if wc := w.one(t); wc != a.want {
			t.Errorf("%+v, want %+v", wc, a.want)
		}
	}
}

func TestRecvFull(t *testing.T) {
	w := newWorld(t, nil)
	wrs := make([]verbs.RecvWR, depth+1)
	if n, err := w.qp.PostRecv(wrs); n != depth || !errors.Is(err, verbs.ErrQueueFull) {
		t.Error(n, err)
	}
	if n, err := w.qp.PostRecv(wrs[:1]); n != 0 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Error(n, err)
	}
	r, _ := w.kqp.TakeRecv()
	w.kqp.Received(r, &abi.IbUverbsWc{}, false)
	w.one(t)
	wrs[1].SGL = sges(2)
	if n, err := w.qp.PostRecv(wrs[:2]); n != 1 || !errors.Is(err, verbs.ErrInvalidWR) {
		t.Error(n, err)
	}
}
