package record

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// efaLine decodes a crossing of EFA. It leaves out the ids of requests, which are the provider's choice, the
// number of a PD, which no other call has, and doorbells that only say how much a program has polled.
func efaLine(c *fakeverbs.Crossing) (*line, bool) {
	switch c.Kind {
	case fakeverbs.CallIn, fakeverbs.CallOut:
		if c.Call == "ALLOC_PD" {
			return nil, false
		}
		return callLine(c, efaCalls)
	case fakeverbs.EntrySQE:
		return efaSend(c), true
	case fakeverbs.EntryRQE:
		return efaRecv(c), true
	case fakeverbs.EntryCQE:
		return efaCompletion(c), true
	case fakeverbs.Doorbell:
		return efaDoorbell(c), c.Queue != fakeverbs.EntryCQE || c.Value>>31&1 != 0
	}
	return nil, false
}

// efaCalls has no fields that rdma-core 44 does not know. They show up as more bytes.
var efaCalls = map[string][]field{
	"GET_CONTEXT in": {{"supported_caps", 4}},
	"GET_CONTEXT out": {{"comp_mask", 4}, {"cmds_supp_udata_mask", 4}, {"sub_cqs_per_cq", 2}, {"inline_buf_size", 2}, {"max_llq_size", 4},
		{"max_tx_batch", 2}, {"min_sq_wr", 2}},
	"QUERY_DEVICE out": {{"comp_mask", 4}, {"max_sq_wr", 4}, {"max_rq_wr", 4}, {"max_sq_sge", 2}, {"max_rq_sge", 2}, {"max_rdma_size", 4}, {"device_caps", 4}},
	"CREATE_AH out":    {{"comp_mask", 4}, {"%ah", 2}},
	"CQ_CREATE in":     {{"comp_mask", 4}, {"cq_entry_size", 4}, {"num_sub_cqs", 2}, {"flags", 1}},
	"CQ_CREATE out": {{"comp_mask", 4}, {"reserved", 4}, {"@q_mmap_key", 8}, {"q_mmap_size", 8}, {"%cq_idx", 2}, {"reserved", 2},
		{"db_off", 4}, {"@db_mmap_key", 8}},
	"QP_CREATE in": {{"comp_mask", 4}, {"rq_ring_size", 4}, {"sq_ring_size", 4}, {"driver_qp_type", 4}},
	"QP_CREATE out": {{"comp_mask", 4}, {"rq_db_offset", 4}, {"sq_db_offset", 4}, {"llq_desc_offset", 4}, {"@rq_mmap_key", 8}, {"rq_mmap_size", 8},
		{"@rq_db_mmap_key", 8}, {"@sq_db_mmap_key", 8}, {"@llq_desc_mmap_key", 8}, {"send_sub_cq_idx", 2}, {"recv_sub_cq_idx", 2}},
}

var efaOps = map[uint32]string{0: "SEND", 1: "READ", 2: "WRITE"}

// efaOp returns an operation's name, or its number if it has none.
func efaOp(op uint32) string {
	if name, ok := efaOps[op]; ok {
		return name
	}
	return fmt.Sprintf("op(%d)", op)
}

func (b entry) u8(at int) uint32  { return b.u32(at&^3) >> (at & 3 * 8) & 0xff }
func (b entry) u16(at int) uint32 { return b.u32(at&^3) >> (at & 2 * 8) & 0xffff }

func efaSend(c *fakeverbs.Crossing) *line {
	const hasImm, inline = 1 << 4, 1 << 5
	b := entry(c.Bytes)
	l := &line{stream: fmt.Sprintf("qp.send%%q%d", c.Object), kind: "sqe"}
	ctrl := b.u8(2)
	l.add("op", efaOp(ctrl&0xf))
	l.hex("ctrl1", uint64(ctrl))
	l.hex("ctrl2", uint64(b.u8(3)))
	l.qpn("to", b.u16(4))
	l.num("count", uint64(b.u16(6)))
	if ctrl&hasImm != 0 {
		l.hex("imm", uint64(b.u32(8)))
	}
	l.add("ah", fmt.Sprintf("%%a%d", b.u16(12)))
	l.hex("hints", uint64(b.u16(14)))
	l.hex("qkey", uint64(b.u32(16)))
	l.num("size", uint64(len(b)))
	at, n := 32, int(b.u16(6))
	if ctrl&0xf != 0 {
		l.efaSGE("remote", b, at)
		at += 16
	}
	if ctrl&inline != 0 {
		l.add("data", fmt.Sprintf("%x", []byte(b[min(at, len(b)):min(at+n, len(b))])))
		return l
	}
	for i := range min(n, 2) {
		l.efaSGE(fmt.Sprint("sge", i), b, at+16*i)
	}
	return l
}

func (l *line) efaSGE(name string, b entry, at int) {
	l.num(name+".length", uint64(b.u32(at)))
	l.key(name+".key", b.u32(at+4))
	l.addr(name+".addr", b.u64(at+8))
}

func efaRecv(c *fakeverbs.Crossing) *line {
	const places = 3 << 30
	b := entry(c.Bytes)
	l := &line{stream: fmt.Sprintf("qp.recv%%q%d", c.Object), kind: "rqe"}
	l.addr("addr", b.u64(0))
	l.num("length", uint64(b.u16(10)))
	l.key("key", b.u32(12)&^places)
	l.hex("place", uint64(b.u32(12)&places))
	return l
}

func efaCompletion(c *fakeverbs.Crossing) *line {
	const recvQueue = 2
	b := entry(c.Bytes)
	flags := b.u8(3)
	l := &line{stream: fmt.Sprintf("cq%%c%d", c.Object), kind: "cqe"}
	l.num("phase", uint64(flags&1))
	l.num("queue", uint64(flags>>1&3))
	l.add("op", efaOp(flags>>4&7))
	l.hex("flags", uint64(flags&(1<<3|1<<7)))
	l.num("status", uint64(b.u8(2)))
	l.qpn("qpn", b.u16(4))
	l.num("size", uint64(len(b)))
	if flags>>1&3 == recvQueue {
		l.num("length", uint64(b.u16(6)|b.u16(16)<<16))
		l.add("ah", fmt.Sprintf("%%a%d", b.u16(8)))
		l.qpn("from", b.u16(10))
		l.hex("imm", uint64(b.u32(12)))
	}
	return l
}

func efaDoorbell(c *fakeverbs.Crossing) *line {
	l := &line{kind: "doorbell"}
	switch c.Queue {
	case fakeverbs.EntrySQE:
		l.stream = fmt.Sprintf("qp.send%%q%d", c.Object)
		l.num("index", c.Value)
	case fakeverbs.EntryRQE:
		l.stream = fmt.Sprintf("qp.recv%%q%d", c.Object)
		l.num("index", c.Value)
	default:
		l.stream = fmt.Sprintf("cq%%c%d", c.Object)
		l.num("events", c.Value>>29&3)
		l.num("consumed", c.Value&0xffff)
	}
	l.num("size", uint64(c.Size))
	return l
}
