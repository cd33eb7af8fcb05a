package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// mlx5Line decodes a crossing of mlx5. It leaves out a context that asks for DEVX, which the
// model refuses, so that rdma-core asks again without.
func mlx5Line(c *fakeverbs.Crossing) (*line, bool) {
	if strings.HasPrefix(c.Call, "UAR_") { // has no private bytes, but attributes of those numbers
		return nil, false
	}
	switch c.Kind {
	case fakeverbs.CallIn:
		if c.Call == "GET_CONTEXT" && len(c.Bytes) > 8 && c.Bytes[8]&abi.MLX5_IB_ALLOC_UCTX_DEVX != 0 {
			return nil, false
		}
		if c.Call == "CREATE_FLOW" && len(bytes.Trim(c.Bytes, "\x00")) == 0 { // rdma-core's empty list of counters
			return nil, false
		}
		return callLine(mlx5Target(c), mlx5Calls)
	case fakeverbs.CallOut:
		if c.Call == "GET_CONTEXT" || c.Call == "QUERY_DEVICE" { // limits, as long as their reader is new
			return nil, false
		}
		return callLine(c, mlx5Calls)
	case fakeverbs.EntrySQE:
		return mlx5Send(c), true
	case fakeverbs.EntryRQE:
		return mlx5Recv(c), true
	case fakeverbs.EntryCQE:
		return mlx5Completion(c), true
	case fakeverbs.Doorbell:
		return mlx5Doorbell(c), c.Offset%0x100 == 0 || c.Offset%0x1000 == 0x20 // of a copy, the first 64 bytes
	}
	return nil, false // a record, which equals the doorbell, or else the model complains
}

// rssCall creates a QP that distributes frames, whose private bytes are others, and dctCall a DCT, which has a key
// in place of an address.
const (
	rssCall = "QP_CREATE(RSS)"
	dctCall = "QP_CREATE(DCT)"
)

// mlx5Target keeps only the index of a call that creates a QP without queues. The driver
// reads nothing else, and rdma-core passes memory for the queues.
func mlx5Target(c *fakeverbs.Crossing) *fakeverbs.Crossing {
	const queues, end, flags, index = 16, 28, 28, 32
	if c.Call == "QP_CREATE" && len(c.Bytes) == len(abi.Bytes(new(abi.Mlx5IbCreateQpRss))) {
		return &fakeverbs.Crossing{Kind: c.Kind, Call: rssCall, Bytes: c.Bytes}
	}
	if c.Call != "QP_CREATE" || len(c.Bytes) < index+4 || len(bytes.Trim(c.Bytes[queues:end], "\x00")) > 0 {
		return c
	}
	if c.Bytes[flags]&abi.MLX5_QP_FLAG_TYPE_DCT != 0 {
		return &fakeverbs.Crossing{Kind: c.Kind, Call: dctCall, Bytes: c.Bytes}
	}
	b := make([]byte, len(c.Bytes))
	copy(b[index:], c.Bytes[index:][:4])
	return &fakeverbs.Crossing{Kind: c.Kind, Call: c.Call, Bytes: b}
}

var mlx5Calls = map[string][]field{
	"GET_CONTEXT in": {{"total_num_bfregs", 4}, {"num_low_latency_bfregs", 4}, {"flags", 4}, {"comp_mask", 4}, {"max_cqe_version", 1},
		{"reserved0", 1}, {"reserved1", 2}, {"reserved2", 4}, {"lib_caps", 8}},
	"ALLOC_PD out": {{"pdn", 4}},
	"CQ_CREATE in": {{"@buf_addr", 8}, {"@db_addr", 8}, {"cqe_size", 4}, {"cqe_comp_en", 1}, {"cqe_comp_res_format", 1}, {"flags", 2},
		{"%uar_page_index", 2}},
	"CQ_CREATE out": {{"%cqn", 4}},
	"QP_CREATE in": {{"@buf_addr", 8}, {"@db_addr", 8}, {"sq_wqe_count", 4}, {"rq_wqe_count", 4}, {"rq_wqe_shift", 4}, {"flags", 4},
		{"%index", 4}, {"%uar", 4}, {"@sq_buf_addr", 8}},
	rssCall + " in": {{"rx_hash_fields_mask", 8}, {"rx_hash_function", 1}, {"rx_key_len", 1}, {"reserved", 6}},
	dctCall + " in": {{"buf_addr", 8}, {"db_addr", 8}, {"sq_wqe_count", 4}, {"rq_wqe_count", 4}, {"rq_wqe_shift", 4}, {"flags", 4},
		{"%index", 4}, {"bfreg_index", 4}, {"access_key", 8}},
	"EX_MODIFY_QP out": {{"response_length", 4}, {"%dctn", 4}, {"ece_options", 4}, {"reserved", 4}},
	"WQ_CREATE in":     {{"@buf_addr", 8}, {"@db_addr", 8}, {"rq_wqe_count", 4}, {"rq_wqe_shift", 4}, {"%index", 4}, {"flags", 4}, {"comp_mask", 4}},
	"SRQ_CREATE in":    {{"@buf_addr", 8}, {"@db_addr", 8}, {"flags", 4}, {"reserved", 4}, {"%index", 4}},
	"SRQ_CREATE out":   {{"%srqn", 4}},
	"RESIZE_CQ in":     {{"@buf_addr", 8}, {"cqe_size", 2}},
	"CREATE_FLOW in":   {{"ncounters_data", 4}, {"reserved", 4}, {"@counters_data", 8}, {"ncounters", 4}, {"reserved", 4}},
}

// mlx5Entry reads an entry of a queue, whose fields are big-endian.
type mlx5Entry []byte

func (b mlx5Entry) u32(at int) uint32 {
	if at+4 > len(b) {
		return 0
	}
	return binary.BigEndian.Uint32(b[at:])
}

// from returns the bytes behind the first n. A program may hand over less than it announces.
func (b mlx5Entry) from(n int) mlx5Entry { return b[min(n, len(b)):] }

func (b mlx5Entry) u64(at int) uint64 { return uint64(b.u32(at))<<32 | uint64(b.u32(at+4)) }

var mlx5Ops = map[uint8]string{0x00: "NOP", 0x01: "SEND_INV", 0x08: "WRITE", 0x09: "WRITE_IMM", 0x0a: "SEND", 0x0b: "SEND_IMM", 0x10: "READ",
	0x11: "CAS", 0x12: "FAA", 0x25: "UMR"}

func mlx5Op(code uint8) string {
	if name, ok := mlx5Ops[code]; ok {
		return name
	}
	return fmt.Sprintf("op(%#x)", code)
}

var mlx5Flags = []struct {
	bits uint8
	name string
}{{0x08, "signaled"}, {0x02, "solicited"}, {0x20, "small-fence"}, {0x80, "fence"}}

func mlx5Send(c *fakeverbs.Crossing) *line {
	b := mlx5Entry(c.Bytes)
	op := mlx5Op(b[3])
	l := &line{stream: fmt.Sprintf("qp.send%%q%d", c.Object), kind: "sqe"}
	l.add("op", op)
	l.num("index", uint64(b.u32(0)>>8&0xffff))
	l.qpn("qpn", b.u32(4)>>8)
	segs := int(b[7] & 0x3f)
	l.num("segments", uint64(segs))
	rest := b[11]
	for _, f := range mlx5Flags {
		if rest&f.bits != 0 {
			l.fields, rest = append(l.fields, f.name), rest&^f.bits
		}
	}
	if odd := uint64(b[0])<<40 | uint64(b[7]&0xc0)<<32 | uint64(b.u32(8)>>8)<<8 | uint64(rest); odd != 0 {
		l.hex("reserved", odd)
	}
	b = b[:min(len(b), segs*16)]
	switch {
	case op == "UMR":
		l.key("old", b.u32(12))
		l.umr(b.from(16))
	case strings.HasSuffix(op, "_INV"):
		l.key("inv", b.u32(12))
		l.mlx5Data(l.mlx5Shared(c, b.from(16)))
	default:
		if imm := b.u32(12); imm != 0 && strings.HasSuffix(op, "_IMM") { // elsewhere the model looks
			l.hex("imm", uint64(imm))
		}
		l.mlx5Message(c, op, l.mlx5Shared(c, b.from(16)))
	}
	return l
}

// mlx5Shared decodes the number of the peer's SRQ, with XRC.
func (l *line) mlx5Shared(c *fakeverbs.Crossing, b mlx5Entry) mlx5Entry {
	if !c.XRC {
		return b
	}
	l.add("srqn", fmt.Sprintf("%%s%d", b.u32(0)))
	return b.from(16)
}

// mlx5Address decodes where a datagram or a request of DC goes.
func (l *line) mlx5Address(c *fakeverbs.Crossing, b mlx5Entry) mlx5Entry {
	reserved := uint64(b.u32(16))
	if c.DC {
		l.hex("key", b.u64(0))
	} else {
		l.hex("qkey", uint64(b.u32(0)))
		reserved |= uint64(b.u32(4)) << 32
	}
	l.qpn("to", b.u32(8)&0xffffff)
	l.hex("extended", uint64(b.u32(8)>>24))
	l.hex("rate-sl", uint64(b.u32(12)>>24))
	l.hex("path-bits", uint64(b.u32(12)>>16&0xff))
	l.hex("lid-or-port", uint64(b.u32(12)&0xffff))
	l.add("mac", fmt.Sprintf("%012x", b.u64(20)>>16))
	l.hex("class", b.u64(20)>>8&0xff)
	l.num("hops", b.u64(20)&0xff)
	l.hex("grh-gid-flow", uint64(b.u32(28)))
	l.add("gid", fmt.Sprintf("%016x%016x", b.u64(32), b.u64(40)))
	if reserved != 0 {
		l.hex("reserved-address", reserved)
	}
	return b.from(48)
}

// mlx5Ethernet decodes what a device does to a frame, and the part of the frame that is in the
// request.
func (l *line) mlx5Ethernet(b mlx5Entry) mlx5Entry {
	l.hex("checksums", uint64(b.u32(4)>>24))
	l.num("mss", uint64(b.u32(4)&0xffff))
	start := int(b.u32(12) >> 16)
	l.num("start", uint64(start))
	if odd := uint64(b.u32(0))<<32 | uint64(b.u32(4)>>16&0xff)<<16 | uint64(b.u32(8)); odd != 0 {
		l.hex("reserved-ethernet", odd)
	}
	if start == 0 {
		return b.from(16)
	}
	l.add("front", fmt.Sprintf("%x", []byte(b.from(14)[:min(start, len(b.from(14)))])))
	return b.from((14 + start + 15) &^ 15)
}

// mlx5Message decodes the segments behind the first.
func (l *line) mlx5Message(c *fakeverbs.Crossing, op string, b mlx5Entry) {
	switch {
	case c.UD, c.DC:
		b = l.mlx5Address(c, b)
	case c.Raw:
		b = l.mlx5Ethernet(b)
	}
	if !strings.HasPrefix(op, "SEND") {
		l.addr("raddr", b.u64(0))
		l.key("rkey", b.u32(8))
		b = b.from(16)
	}
	if op == "CAS" || op == "FAA" {
		l.hex("operand", b.u64(0))
		if op == "CAS" {
			l.hex("compare", b.u64(8))
		}
		b = b.from(16)
	}
	l.mlx5Data(b)
}

// mlx5Data decodes SGEs or inline data.
func (l *line) mlx5Data(b mlx5Entry) {
	if len(b) > 0 && b[0]&0x80 != 0 {
		n := int(b.u32(0) &^ (1 << 31))
		l.num("inline", uint64(n))
		l.add("data", fmt.Sprintf("%x", []byte(b[4:min(4+n, len(b))])))
		return
	}
	for i := 0; len(b) >= 16; i, b = i+1, b[16:] {
		l.mlx5SGE(fmt.Sprint("sge", i), b)
	}
}

func (l *line) mlx5SGE(name string, b mlx5Entry) {
	l.num(name+".length", uint64(b.u32(0)))
	if b.u32(4) == 0x100 && b.u32(0) == 0 {
		l.add(name+".key", "none")
		return
	}
	l.key(name+".key", b.u32(4))
	l.addr(name+".addr", b.u64(8))
}

// umr decodes a change of a key.
func (l *line) umr(b mlx5Entry) {
	l.hex("flags", uint64(b.u32(0)>>24))
	l.num("octowords", uint64(b.u32(4)>>16))
	l.hex("mask", b.u64(8))
	key, covers := b.from(48), b.u64(8)&1 != 0
	l.hex("free", uint64(key.u32(0)>>24))
	if qpn := key.u32(4) >> 8; qpn == 0xffffff {
		l.add("qpn", "any")
	} else {
		l.qpn("qpn", qpn)
	}
	l.hex("byte", uint64(key.u32(4)&0xff))
	if !covers {
		return // the rest is what stood there before
	}
	l.hex("access", uint64(key.u32(0)>>8&0xff))
	l.addr("start", key.u64(16))
	l.num("length", key.u64(24))
	for i, rest := 0, b.from(48+64); len(rest) >= 16; i, rest = i+1, rest[16:] {
		if rest.u64(0)|rest.u64(8) != 0 {
			l.mlx5SGE(fmt.Sprint("klm", i), rest)
		}
	}
}

// mlx5Recv decodes an entry up to its end, which an SGE without a length marks.
func mlx5Recv(c *fakeverbs.Crossing) *line {
	l := &line{stream: fmt.Sprintf("qp.recv%%q%d", c.Object), kind: "rqe"}
	b := mlx5Entry(c.Bytes)
	if c.SRQ { // whose list of free entries may have any order
		l.stream, b = fmt.Sprintf("srq.recv%%s%d", c.Object), b.from(16)
	}
	for i := 0; len(b) >= 16; i, b = i+1, b[16:] {
		l.mlx5SGE(fmt.Sprint("sge", i), b)
		if b.u32(0) == 0 {
			break
		}
	}
	return l
}

var mlx5Completions = map[uint8]string{0: "REQ", 1: "RESP_WRITE_IMM", 2: "RESP_SEND", 3: "RESP_SEND_IMM", 4: "RESP_SEND_INV", 5: "RESIZE_CQ",
	13: "REQ_ERR", 14: "RESP_ERR"}

func mlx5Completion(c *fakeverbs.Crossing) *line {
	b := mlx5Entry(c.Bytes)
	l := &line{stream: fmt.Sprintf("cq%%c%d", c.Object), kind: "cqe"}
	op := b[63] >> 4
	l.add("op", mlx5Completions[op])
	l.num("owner", uint64(b[63]&1))
	l.num("index", uint64(b.u32(60)>>16))
	l.add("queue", fmt.Sprintf("%%i%d", b.u32(32)&0xffffff))
	l.add("of", mlx5Op(b[56]))
	l.qpn("qpn", b.u32(56)&0xffffff)
	if op >= 13 {
		l.hex("syndrome", uint64(b[55]))
		l.hex("vendor", uint64(b[54]))
		return l
	}
	switch op {
	case 1, 3:
		l.hex("imm", uint64(b.u32(36)))
	case 4:
		l.key("inv", b.u32(36))
	}
	l.num("bytes", uint64(b.u32(44)))
	if b[63]&4 != 0 { // a short message
		l.add("data", fmt.Sprintf("%x", []byte(b[:min(32, b.u32(44))])))
	}
	if b[63]&8 != 0 { // one in front of the entry, which the recorder does not see
		l.add("data", "before")
	}
	return l
}

func mlx5Doorbell(c *fakeverbs.Crossing) *line {
	b := mlx5Entry(c.Bytes)
	if b == nil {
		b = binary.LittleEndian.AppendUint64(nil, c.Value)
	}
	l := &line{kind: "doorbell"}
	if c.Offset%4096 == 0x20 {
		l.stream = fmt.Sprintf("cq%%c%d", b.u32(4))
		l.num("events", uint64(b.u32(0)>>28&3))
		l.num("solicited", uint64(b.u32(0)>>24&1))
		l.num("consumed", uint64(b.u32(0)&0xffffff))
		return l
	}
	l.stream = fmt.Sprintf("qp.send%%q%d", b.u32(4)>>8)
	l.num("index", uint64(b.u32(0)>>8&0xffff)) // or a copy of all of it, which begins so
	return l
}
