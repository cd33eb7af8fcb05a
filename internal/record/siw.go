package record

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// siwLine decodes a crossing of siw. It leaves out two habits of goverbs, which change nothing
// for siw: the low byte of a key, which is random and with libsiw 0, and a doorbell of an empty
// queue, which asks whether the QP is connected.
func siwLine(c *fakeverbs.Crossing) (*line, bool) {
	switch c.Kind {
	case fakeverbs.CallIn:
		return nil, false // which has the byte of a key, and nothing else
	case fakeverbs.CallOut:
		return callLine(c, siwCalls)
	case fakeverbs.EntrySQE:
		return siwSend(c), true
	case fakeverbs.EntryRQE:
		return siwRecv(c), true
	case fakeverbs.EntryCQE:
		return siwCompletion(c), true
	case fakeverbs.Doorbell:
		return softDoorbell(c), c.Value > 0
	}
	l := &line{stream: queueStream(c, c.Queue), kind: "arm"}
	l.hex("notify", c.Value)
	return l, c.Value != abi.SIW_NOTIFY_NOT
}

var siwCalls = map[string][]field{
	"GET_CONTEXT out": {{"dev_id", 4}},
	"REG_MR out":      {{"#stag", 4}},
	"CQ_CREATE out":   {{"%cq_id", 4}, {"num_cqe", 4}, {"cq_key", 8}},
	"QP_CREATE out":   {{"%qp_id", 4}, {"num_sqe", 4}, {"num_rqe", 4}, {"pad", 4}, {"sq_key", 8}, {"rq_key", 8}},
	"SRQ_CREATE out":  {{"num_rqe", 4}, {"pad", 4}, {"srq_key", 8}},
}

var siwOps = map[uint8]string{abi.SIW_OP_WRITE: "WRITE", abi.SIW_OP_READ: "READ", abi.SIW_OP_READ_LOCAL_INV: "READ_INV", abi.SIW_OP_SEND: "SEND",
	abi.SIW_OP_SEND_REMOTE_INV: "SEND_INV", abi.SIW_OP_INVAL_STAG: "LOCAL_INV", abi.SIW_OP_RECEIVE: "RECEIVE"}

func siwOp(code uint8) string {
	if name, ok := siwOps[code]; ok {
		return name
	}
	return fmt.Sprintf("op(%d)", code)
}

var siwFlags = []flagName{{abi.SIW_WQE_VALID, "valid"}, {abi.SIW_WQE_SIGNALLED, "signaled"}, {abi.SIW_WQE_SOLICITED, "solicited"},
	{abi.SIW_WQE_READ_FENCE, "fence"}, {abi.SIW_WQE_INLINE, "inline"}}

// siwSend leaves out the fields that the operation does not use, and how many SGEs inline data has,
// which the kernel sets itself.
func siwSend(c *fakeverbs.Crossing) *line {
	var e abi.SiwSqe
	copy(abi.Bytes(&e), c.Bytes)
	op := siwOp(e.Opcode)
	l := &line{stream: queueStream(c, c.Kind), kind: "sqe"}
	l.add("op", op)
	l.num("id", e.Id)
	l.named(uint32(e.Flags), siwFlags)
	switch op {
	case "WRITE", "READ", "READ_INV":
		l.addr("raddr", e.Raddr)
		l.key("rkey", e.Rkey)
	case "SEND_INV", "LOCAL_INV":
		l.key("inv", e.Rkey)
	}
	sges := entry(abi.Bytes(&e.Sge))
	if e.Flags&abi.SIW_WQE_INLINE != 0 {
		l.inline(sges.after(16), int(e.Sge[0].Length))
		return l
	}
	l.num("num_sge", uint64(e.NumSge))
	l.sges(sges, min(int(e.NumSge), len(e.Sge)))
	return l
}

func siwRecv(c *fakeverbs.Crossing) *line {
	var e abi.SiwRqe
	copy(abi.Bytes(&e), c.Bytes)
	l := &line{stream: queueStream(c, c.Kind), kind: "rqe"}
	l.num("id", e.Id)
	l.named(uint32(e.Flags), siwFlags)
	l.num("num_sge", uint64(e.NumSge))
	l.sges(entry(abi.Bytes(&e.Sge)), min(int(e.NumSge), len(e.Sge)))
	return l
}

func siwCompletion(c *fakeverbs.Crossing) *line {
	var e abi.SiwCqe
	copy(abi.Bytes(&e), c.Bytes)
	l := &line{stream: queueStream(c, c.Kind), kind: "cqe"}
	l.add("op", siwOp(e.Opcode))
	l.num("id", e.Id)
	l.num("status", uint64(e.Status))
	l.num("bytes", uint64(e.Bytes))
	l.qpn("qpn", uint32(e.QpId))
	return l
}
