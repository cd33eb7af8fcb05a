//go:build vm

package test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// TestRxeZeroLength: a write and a read of nothing need no memory at either end,
// neither named, nor registered, nor allowed, and change none.
func TestRxeZeroLength(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	a, b := d.pair(t, verbs.QPTypeRC, rxeSetup{access: verbs.AccessLocalWrite})
	pattern(a.mr.Bytes(), 1)
	pattern(b.mr.Bytes(), 2)
	mine, theirs := bytes.Clone(a.mr.Bytes()), bytes.Clone(b.mr.Bytes())
	b.postRecv(1, 0, 100)
	for name, sgl := range map[string][]verbs.SGE{"no SGE": nil, "an SGE of 0 bytes": {a.mr.SGE(0, 0)}} {
		for _, to := range []verbs.SendWR{{}, {RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}} {
			for op, want := range map[verbs.Opcode]string{verbs.OpRDMAWrite: "RDMA_WRITE", verbs.OpRDMARead: "RDMA_READ"} {
				to.WRID, to.Opcode, to.Flags, to.SGL = 7, op, verbs.SendSignaled, sgl
				a.post(to)
				if got := brief(a.next(a.sendCQ)); got != fmt.Sprintf("7 %s success", want) {
					t.Fatalf("%v with %s: %s", op, name, got)
				}
			}
		}
	}
	a.post(verbs.SendWR{WRID: 8, Opcode: verbs.OpRDMAWriteImm, Flags: verbs.SendSignaled, Imm: 5})
	a.sent("8 RDMA_WRITE success")
	if wc := b.next(b.recvCQ); wc.Status != verbs.StatusSuccess || wc.ByteLen != 0 || wc.Imm != 5 {
		t.Errorf("%+v", wc)
	}
	if !bytes.Equal(a.mr.Bytes(), mine) || !bytes.Equal(b.mr.Bytes(), theirs) {
		t.Error("memory changed")
	}
}

// TestRxeDataOrder: rxe promises nothing of the order in which data arrives.
func TestRxeDataOrder(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		a, _ := openRxe(t).pair(t, typ, rxeSetup{})
		for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead} {
			if got := a.qp.DataOrder(op); got != 0 {
				t.Errorf("%v: %v", op, got)
			}
		}
	})
}
