package record

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// erdmaLine decodes a crossing of eRDMA. It leaves out fields that no operation uses, because
// rdma-core does not clear them.
func erdmaLine(c *fakeverbs.Crossing) (*line, bool) {
	switch c.Kind {
	case fakeverbs.CallIn, fakeverbs.CallOut:
		return callLine(c, erdmaCalls)
	case fakeverbs.EntrySQE:
		return sendLine(c), true
	case fakeverbs.EntryRQE:
		return recvLine(c), true
	case fakeverbs.EntryCQE:
		return completionLine(c), true
	case fakeverbs.Doorbell:
		return doorbellLine(c), true
	case fakeverbs.Record:
		return recordLine(c)
	}
	return nil, false
}

var erdmaCalls = map[string][]field{
	"GET_CONTEXT out": {{"dev_id", 4}, {"pad", 4}, {"sdb_type", 4}, {"sdb_offset", 4}, {"@sdb", 8}, {"@rdb", 8}, {"@cdb", 8}},
	"CQ_CREATE in":    {{"@db_record_va", 8}, {"@qbuf_va", 8}, {"qbuf_len", 4}, {"rsvd0", 4}},
	"CQ_CREATE out":   {{"%cq_id", 4}, {"num_cqe", 4}},
	"QP_CREATE in":    {{"@db_record_va", 8}, {"@qbuf_va", 8}, {"qbuf_len", 4}, {"rsvd0", 4}},
	"QP_CREATE out":   {{"%qp_id", 4}, {"num_sqe", 4}, {"num_rqe", 4}, {"rq_offset", 4}},
}

var sendOps = map[uint32]string{0: "WRITE", 1: "READ", 2: "SEND", 3: "SEND_IMM", 9: "WRITE_IMM", 13: "SEND_INV",
	15: "LOCAL_INV", 16: "READ_INV", 17: "CAS", 18: "FAA"}

var sendFlags = []struct {
	bit  uint
	name string
}{{22, "signaled"}, {23, "solicited"}, {24, "fence"}, {25, "inline"}}

// entry reads an entry of a queue.
type entry []byte

func (b entry) u32(at int) uint32 {
	if at+4 > len(b) {
		return 0
	}
	return binary.LittleEndian.Uint32(b[at:])
}

func (b entry) u64(at int) uint64 { return uint64(b.u32(at)) | uint64(b.u32(at+4))<<32 }

func (l *line) sge(name string, b entry, at int) {
	l.addr(name+".addr", b.u64(at))
	l.num(name+".length", uint64(b.u32(at+8)))
	l.key(name+".key", b.u32(at+12))
}

// opName returns an operation's name, or its number if it has none.
func opName(op uint32) string {
	if name, ok := sendOps[op]; ok {
		return name
	}
	return fmt.Sprintf("op(%d)", op)
}

func sendLine(c *fakeverbs.Crossing) *line {
	b := entry(c.Bytes)
	h := b.u64(0)
	op := opName(uint32(h >> 27 & 0x1f))
	l := &line{stream: fmt.Sprintf("qp.send%%q%d", c.Object), kind: "sqe"}
	l.add("op", op)
	l.qpn("qpn", uint32(h>>32&0xfffff))
	l.num("blocks", h>>52&7+1)
	l.num("next", h&0xffff)
	for _, f := range sendFlags {
		if h>>f.bit&1 != 0 {
			l.fields = append(l.fields, f.name)
		}
	}
	if rest := h & (1<<55 | 1<<26 | 0x3f<<16); rest != 0 {
		l.hex("reserved", rest)
	}
	switch op {
	case "LOCAL_INV":
		l.key("stag", b.u32(20))
	case "CAS", "FAA":
		l.atomic(op, b)
	case "READ", "READ_INV":
		l.read(op, b)
	default:
		l.message(op, b)
	}
	return l
}

func (l *line) atomic(op string, b entry) {
	l.hex("data", b.u64(16))
	if op == "CAS" {
		l.hex("compare", b.u64(24))
	}
	l.addr("raddr", b.u64(32))
	l.key("rkey", b.u32(44))
	l.sge("sge0", b, 48)
}

func (l *line) read(op string, b entry) {
	if op == "READ_INV" {
		l.key("inv", b.u32(8))
	}
	l.num("length", uint64(b.u32(12)))
	l.key("lkey", b.u32(16))
	l.addr("laddr", b.u64(20))
	l.sge("remote", b, 32)
}

// message decodes all forms of SEND and WRITE.
func (l *line) message(op string, b entry) {
	h, at := b.u64(0), 16
	if strings.HasSuffix(op, "_IMM") {
		l.hex("imm", uint64(binary.BigEndian.Uint32(b[8:])))
	}
	if op == "SEND_INV" {
		l.key("inv", b.u32(8))
	}
	l.num("length", uint64(b.u32(12)))
	if strings.HasPrefix(op, "WRITE") {
		at = 32
		l.key("rkey", b.u32(16))
		l.addr("raddr", b.u64(20))
	}
	n := int(h >> 56)
	if h>>25&1 != 0 {
		l.add("data", fmt.Sprintf("%x", []byte(b[min(at, len(b)):min(at+n, len(b))])))
		return
	}
	for i := range n {
		l.sge(fmt.Sprint("sge", i), b, at+16*i)
		if last := i == n-1; last && (at+16*i)%32 == 0 {
			l.qpn("behind", b.u32(at+16*i+28))
		}
	}
}

func recvLine(c *fakeverbs.Crossing) *line {
	b := entry(c.Bytes)
	l := &line{stream: fmt.Sprintf("qp.recv%%q%d", c.Object), kind: "rqe"}
	l.num("index", uint64(b.u32(0)&0xffff))
	l.qpn("qpn", b.u32(4))
	if l.num("length", uint64(b.u32(24))); b.u32(24) > 0 {
		l.addr("addr", b.u64(16))
		l.key("key", b.u32(28))
	}
	return l
}

var recvOps = map[uint32]string{4: "RECEIVE", 5: "RECV_IMM", 6: "RECV_INV", 12: "RSP_SEND_IMM"}

func completionLine(c *fakeverbs.Crossing) *line {
	be := func(at int) uint32 { return binary.BigEndian.Uint32(c.Bytes[at:]) }
	hdr := be(0)
	l := &line{stream: fmt.Sprintf("cq%%c%d", c.Object), kind: "cqe"}
	op := hdr >> 16 & 0x7f
	name, ok := recvOps[op]
	if !ok {
		name = opName(op)
	}
	l.num("owner", uint64(hdr>>31))
	l.add("op", name)
	l.num("queue", uint64(hdr>>8&0xff))
	l.num("syndrome", uint64(hdr&0xff))
	l.num("index", uint64(be(4)))
	l.qpn("qpn", be(8))
	switch name {
	case "RECV_IMM", "RSP_SEND_IMM":
		l.hex("imm", uint64(binary.LittleEndian.Uint32(c.Bytes[12:])))
	case "RECV_INV":
		l.key("inv", be(12))
	}
	l.num("size", uint64(be(16)))
	return l
}

func doorbellLine(c *fakeverbs.Crossing) *line {
	v, num := c.Value, uint32(c.Value>>32)
	l := &line{kind: "doorbell"}
	switch c.Page {
	case 1:
		l.stream = fmt.Sprintf("qp.send%%q%d", num)
		l.hex("value", v&0xffffffff)
	case 2:
		l.stream = fmt.Sprintf("qp.recv%%q%d", num)
		l.num("index", v&0xffff) // the rest is nobody's
	default:
		l.stream = fmt.Sprintf("cq%%c%d", num&0xffffff)
		l.arm(v)
	}
	l.num("size", uint64(c.Size))
	return l
}

// recordLine decodes the record of a new object. Later ones equal their doorbells, or else the
// model complains.
func recordLine(c *fakeverbs.Crossing) (*line, bool) {
	l := &line{stream: "calls", kind: "record"}
	switch c.Queue {
	case fakeverbs.EntryCQE:
		l.add("cq", fmt.Sprintf("%%c%d", c.Object))
		l.add("cqn", fmt.Sprintf("%%c%d", c.Value>>32&0xffffff))
		l.arm(c.Value)
	case fakeverbs.EntrySQE, fakeverbs.EntryRQE:
		l.qpn("qp", c.Object)
		l.add("of", string(c.Queue))
		l.hex("value", c.Value)
	}
	return l, c.Call != ""
}

// arm decodes the doorbell of a CQ, or its record.
func (l *line) arm(v uint64) {
	l.num("arm", v>>31&1)
	l.num("solicited", v>>30&1)
	l.num("events", v>>28&3)
	l.num("index", v>>56)
	l.num("consumed", v&0xffffff)
}
