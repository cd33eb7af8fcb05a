//go:build vm

package test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/uverbs"
)

// TestRxeCompletions compares completions whole: what there is to say is said, and
// nothing is left in them of another.
func TestRxeCompletions(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ uverbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		a, b := openRxe(t).pair(t, typ, rxeSetup{})
		same := func(who string, want, got uverbs.WC) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", who, diff)
			}
		}
		front, src := uint32(0), uint32(0)
		if typ == uverbs.QPTypeUD {
			front, src = uverbs.GRHSize, a.qp.Num()
		}
		for id, c := range []completion{
			{wr: uverbs.SendWR{Opcode: uverbs.OpSendImm, Imm: 0x01020304}, sent: uverbs.WCSend, got: uverbs.WCRecv, flags: uverbs.WCWithImm, size: 100},
			{wr: uverbs.SendWR{Opcode: uverbs.OpSend}, sent: uverbs.WCSend, got: uverbs.WCRecv, size: 10},
			{wr: uverbs.SendWR{Opcode: uverbs.OpSendImm, Imm: 1<<32 - 1, Flags: uverbs.SendSolicited}, sent: uverbs.WCSend, got: uverbs.WCRecv, flags: uverbs.WCWithImm},
			{wr: uverbs.SendWR{Opcode: uverbs.OpRDMAWriteImm, Imm: 5}, sent: uverbs.WCRDMAWrite, got: uverbs.WCRecvRDMAWithImm, flags: uverbs.WCWithImm, size: 300, not: uverbs.QPTypeUD},
			{wr: uverbs.SendWR{Opcode: uverbs.OpRDMAWriteImm}, sent: uverbs.WCRDMAWrite, got: uverbs.WCRecvRDMAWithImm, flags: uverbs.WCWithImm, not: uverbs.QPTypeUD},
			{wr: uverbs.SendWR{Opcode: uverbs.OpSend}, sent: uverbs.WCSend, got: uverbs.WCRecv, size: 1000},
		} {
			if typ == c.not {
				continue
			}
			b.postRecv(uint64(1000+id), 0, int(front)+1000)
			wr := a.to(c.wr)
			wr.WRID, wr.SGL = uint64(id), []uverbs.SGE{a.mr.SGE(sendFrom, int(c.size))}
			wr.Flags |= uverbs.SendSignaled
			a.post(wr)
			same(fmt.Sprint("sent ", id), uverbs.WC{WRID: uint64(id), Opcode: c.sent, QPN: a.qp.Num(), ByteLen: c.size}, a.next(a.sendCQ))
			same(fmt.Sprint("got ", id), uverbs.WC{WRID: uint64(1000 + id), Opcode: c.got, QPN: b.qp.Num(), SrcQP: src, ByteLen: front + c.size,
				Flags: uverbs.WCGRH | c.flags, Imm: c.wr.Imm}, b.next(b.recvCQ))
		}
		// What failed tells whose it is, and how; what was there before it, nothing.
		b.postRecv(2000, 0, 100)
		for _, e := range []*rxeEnd{a, b} {
			e.modify(uverbs.QPAttr{State: uverbs.QPStateErr}, 0)
		}
		wr := a.numbered(77)
		a.post(wr)
		same("flushed send", uverbs.WC{WRID: 77, Status: uverbs.StatusWRFlushErr, QPN: a.qp.Num()}, a.next(a.sendCQ))
		same("flushed receive", uverbs.WC{WRID: 2000, Status: uverbs.StatusWRFlushErr, QPN: b.qp.Num()}, b.next(b.recvCQ))
	})
}

// completion is a send with what comes of it at both ends.
type completion struct {
	wr        uverbs.SendWR
	sent, got uverbs.WCOpcode
	flags     uverbs.WCFlags
	size      uint32
	not       uverbs.QPType // has no such send
}
