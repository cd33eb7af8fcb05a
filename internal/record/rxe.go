package record

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// rxeLine decodes a crossing of rxe.
func rxeLine(c *fakeverbs.Crossing) (*line, bool) {
	switch c.Kind {
	case fakeverbs.CallIn, fakeverbs.CallOut:
		return callLine(c, rxeCalls)
	case fakeverbs.EntrySQE:
		return rxeSend(c), true
	case fakeverbs.EntryRQE:
		return rxeRecv(c), true
	case fakeverbs.EntryCQE:
		return rxeCompletion(c), true
	case fakeverbs.Doorbell:
		return softDoorbell(c), true
	}
	l := &line{stream: queueStream(c, c.Queue), kind: "index"}
	if c.Queue == fakeverbs.EntryCQE {
		l.num("consumed", c.Value)
	} else {
		l.num("produced", c.Value)
	}
	return l, true
}

var rxeCalls = map[string][]field{
	"CQ_CREATE out":  {{"offset", 8}, {"size", 4}, {"pad", 4}},
	"QP_CREATE out":  {{"rq_offset", 8}, {"rq_size", 4}, {"pad", 4}, {"sq_offset", 8}, {"sq_size", 4}, {"pad", 4}},
	"SRQ_CREATE out": {{"offset", 8}, {"size", 4}, {"pad", 4}, {"srq_num", 4}, {"reserved", 4}},
	"CREATE_AH out":  {{"ah_num", 4}, {"reserved", 4}},
	"RESIZE_CQ out":  {{"offset", 8}, {"size", 4}, {"pad", 4}},
	"MODIFY_SRQ in":  {{"@mmap_info_addr", 8}},
}

var rxeOps = map[uint32]string{abi.IB_UVERBS_WR_RDMA_WRITE: "WRITE", abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM: "WRITE_IMM",
	abi.IB_UVERBS_WR_SEND: "SEND", abi.IB_UVERBS_WR_SEND_WITH_IMM: "SEND_IMM", abi.IB_UVERBS_WR_SEND_WITH_INV: "SEND_INV",
	abi.IB_UVERBS_WR_RDMA_READ: "READ", abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP: "CAS", abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD: "FAA",
	abi.IB_UVERBS_WR_LOCAL_INV: "LOCAL_INV", abi.IB_UVERBS_WR_BIND_MW: "BIND", abi.IB_UVERBS_WR_FLUSH: "FLUSH", abi.IB_UVERBS_WR_ATOMIC_WRITE: "ATOMIC_WRITE"}

var rxeFlags = []flagName{{abi.IB_SEND_SIGNALED, "signaled"}, {abi.IB_SEND_SOLICITED, "solicited"}, {abi.IB_SEND_FENCE, "fence"}, {abi.IB_SEND_INLINE, "inline"}}

// rxeSend leaves out the fields that the operation does not use, how many SGEs inline data
// has, which the kernel does not read, and the fields that the kernel sets itself: masks and numbers of packets.
func rxeSend(c *fakeverbs.Crossing) *line {
	var e abi.RxeSendWqe
	behind := entry(c.Bytes).after(copy(abi.Bytes(&e), c.Bytes))
	l := &line{stream: queueStream(c, c.Kind), kind: "sqe"}
	op, ok := rxeOps[e.Wr.Opcode]
	if !ok {
		op = fmt.Sprintf("op(%d)", e.Wr.Opcode)
	}
	l.add("op", op)
	l.num("id", e.Wr.WrId)
	l.named(e.Wr.SendFlags, rxeFlags)
	if e.State|e.Status|e.HasRdAtomic|e.Wr.Reserved != 0 {
		l.add("state", fmt.Sprintf("%d/%d/%d/%d", e.State, e.Status, e.HasRdAtomic, e.Wr.Reserved))
	}
	switch {
	case strings.HasSuffix(op, "_IMM"):
		l.hex("imm", uint64(bits.ReverseBytes32(e.Wr.Ex)))
	case strings.HasSuffix(op, "_INV"):
		l.key("inv", e.Wr.Ex)
	}
	l.rxeOperands(op, &e)
	if arm := entry(e.Wr.Wr[:]); c.UD {
		l.qpn("to", arm.u32(0))
		l.hex("qkey", uint64(arm.u32(4)))
		l.num("ah", uint64(arm.u32(12)))
	}
	l.rxeDMA(&e.Dma)
	if e.Wr.SendFlags&abi.IB_SEND_INLINE != 0 {
		l.inline(behind, int(e.Dma.Length))
	} else {
		l.rxeSGEs(&e.Dma, behind)
	}
	return l
}

// rxeOperands decodes the part that depends on the operation.
func (l *line) rxeOperands(op string, e *abi.RxeSendWqe) {
	arm := entry(e.Wr.Wr[:])
	switch op {
	case "WRITE", "WRITE_IMM", "READ", "FLUSH", "ATOMIC_WRITE", "CAS", "FAA":
		l.addr("iova", e.Iova)
		l.addr("raddr", arm.u64(0))
	}
	switch op {
	case "WRITE", "WRITE_IMM", "READ", "ATOMIC_WRITE":
		l.key("rkey", arm.u32(8))
	case "FLUSH":
		l.num("length", uint64(arm.u32(8)))
		l.key("rkey", arm.u32(12))
		l.hex("type", uint64(arm.u32(16)))
	case "CAS", "FAA":
		l.hex("compare", arm.u64(8))
		l.hex("swap", arm.u64(16))
		l.key("rkey", arm.u32(24))
	case "BIND":
		l.addr("addr", arm.u64(0))
		l.num("length", arm.u64(8))
		l.key("mr", arm.u32(16))
		l.key("mw", arm.u32(20))
		l.key("rkey", arm.u32(24))
		l.hex("access", uint64(arm.u32(28)))
	}
}

func (l *line) rxeDMA(d *abi.RxeDmaInfo) {
	l.num("bytes", uint64(d.Length))
	l.num("left", uint64(d.Resid))
	if d.CurSge|d.SgeOffset != 0 {
		l.add("from", fmt.Sprintf("%d/%d", d.CurSge, d.SgeOffset))
	}
}

func (l *line) rxeSGEs(d *abi.RxeDmaInfo, b entry) {
	l.num("num_sge", uint64(d.NumSge))
	l.sges(b, min(int(d.NumSge), len(b)/16))
}

func rxeRecv(c *fakeverbs.Crossing) *line {
	var e abi.RxeRecvWqe
	behind := entry(c.Bytes).after(copy(abi.Bytes(&e), c.Bytes))
	l := &line{stream: queueStream(c, c.Kind), kind: "rqe"}
	l.num("id", e.WrId)
	l.rxeDMA(&e.Dma)
	l.rxeSGEs(&e.Dma, behind)
	return l
}

func rxeCompletion(c *fakeverbs.Crossing) *line {
	var e abi.IbUverbsWc
	copy(abi.Bytes(&e), c.Bytes)
	l := &line{stream: queueStream(c, c.Kind), kind: "cqe"}
	l.num("op", uint64(e.Opcode))
	l.num("id", e.WrId)
	l.num("status", uint64(e.Status))
	l.num("bytes", uint64(e.ByteLen))
	l.hex("flags", uint64(e.WcFlags))
	switch {
	case e.WcFlags&abi.IB_WC_WITH_INVALIDATE != 0:
		l.key("inv", e.Ex)
	case e.WcFlags&abi.IB_WC_WITH_IMM != 0:
		l.hex("imm", uint64(bits.ReverseBytes32(e.Ex)))
	}
	l.qpn("qpn", e.QpNum)
	if e.SrcQp != 0 {
		l.qpn("from", e.SrcQp)
	}
	return l
}
