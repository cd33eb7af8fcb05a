//go:build vm

package test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeCompletions compares completions whole: what there is to say is said, and
// nothing is left in them of another.
func TestRxeCompletions(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		a, b := openRxe(t).pair(t, typ, rxeSetup{})
		same := func(who string, want, got verbs.WC) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", who, diff)
			}
		}
		front, src := uint32(0), uint32(0)
		if typ == verbs.QPTypeUD {
			front, src = uverbs.GRHSize, a.qp.Num()
		}
		for id, c := range []completion{
			{wr: verbs.SendWR{Opcode: verbs.OpSendImm, Imm: 0x01020304}, sent: verbs.WCSend, got: verbs.WCRecv, flags: verbs.WCWithImm, size: 100},
			{wr: verbs.SendWR{Opcode: verbs.OpSend}, sent: verbs.WCSend, got: verbs.WCRecv, size: 10},
			{wr: verbs.SendWR{Opcode: verbs.OpSendImm, Imm: 1<<32 - 1, Flags: verbs.SendSolicited}, sent: verbs.WCSend, got: verbs.WCRecv, flags: verbs.WCWithImm},
			{wr: verbs.SendWR{Opcode: verbs.OpRDMAWriteImm, Imm: 5}, sent: verbs.WCRDMAWrite, got: verbs.WCRecvRDMAWithImm, flags: verbs.WCWithImm, size: 300, not: verbs.QPTypeUD},
			{wr: verbs.SendWR{Opcode: verbs.OpRDMAWriteImm}, sent: verbs.WCRDMAWrite, got: verbs.WCRecvRDMAWithImm, flags: verbs.WCWithImm, not: verbs.QPTypeUD},
			{wr: verbs.SendWR{Opcode: verbs.OpSend}, sent: verbs.WCSend, got: verbs.WCRecv, size: 1000},
		} {
			if typ == c.not {
				continue
			}
			b.postRecv(uint64(1000+id), 0, int(front)+1000)
			wr := a.to(c.wr)
			wr.WRID, wr.SGL = uint64(id), []verbs.SGE{a.mr.SGE(sendFrom, int(c.size))}
			wr.Flags |= verbs.SendSignaled
			a.post(wr)
			same(fmt.Sprint("sent ", id), verbs.WC{WRID: uint64(id), Opcode: c.sent, QPN: a.qp.Num(), ByteLen: c.size}, a.next(a.sendCQ))
			same(fmt.Sprint("got ", id), verbs.WC{WRID: uint64(1000 + id), Opcode: c.got, QPN: b.qp.Num(), SrcQP: src, ByteLen: front + c.size,
				Flags: verbs.WCGRH | c.flags, Imm: c.wr.Imm}, b.next(b.recvCQ))
		}
		// The completion of the failed request names it and its error. Earlier ones do not.
		b.postRecv(2000, 0, 100)
		for _, e := range []*rxeEnd{a, b} {
			e.modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
		}
		wr := a.numbered(77)
		a.post(wr)
		same("flushed send", verbs.WC{WRID: 77, Status: verbs.StatusWRFlushErr, QPN: a.qp.Num()}, a.next(a.sendCQ))
		same("flushed receive", verbs.WC{WRID: 2000, Status: verbs.StatusWRFlushErr, QPN: b.qp.Num()}, b.next(b.recvCQ))
	})
}

// completion is a send with its completions at both ends.
type completion struct {
	wr        verbs.SendWR
	sent, got verbs.WCOpcode
	flags     verbs.WCFlags
	size      uint32
	not       verbs.QPType // has no such send
}
