package mlx5

import (
	"encoding/binary"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// send is a send as the device found it.
type send struct {
	*fakeverbs.Work
	at     uint32 // the first block, free-running
	blocks uint32
	code   uint8
	raw    []byte
	first  [block]byte    // room for the raw bytes of most
	work   fakeverbs.Work // what Work is
	bad    bool           // malformed: the device answers with an error
}

// parts are the segments that an operation has behind the first, in this order.
type parts struct {
	verb           uint32
	remote, atomic bool
	umr            bool
	data           bool
	inline         bool // data may be inline
	ud             bool // a datagram may be it
	uc             bool // an unreliable connection has it
	raw            bool // a raw packet may be it
}

var operations = map[uint8]parts{
	0x01: {verb: abi.IB_UVERBS_WR_SEND_WITH_INV, data: true, inline: true},
	0x08: {verb: abi.IB_UVERBS_WR_RDMA_WRITE, remote: true, data: true, inline: true, uc: true},
	0x09: {verb: abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, remote: true, data: true, inline: true, uc: true},
	0x0a: {verb: abi.IB_UVERBS_WR_SEND, data: true, inline: true, ud: true, uc: true, raw: true},
	0x0b: {verb: abi.IB_UVERBS_WR_SEND_WITH_IMM, data: true, inline: true, ud: true, uc: true},
	0x10: {verb: abi.IB_UVERBS_WR_RDMA_READ, remote: true, data: true},
	0x11: {verb: abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, remote: true, atomic: true, data: true},
	0x12: {verb: abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, remote: true, atomic: true, data: true},
	0x25: {verb: abi.IB_UVERBS_WR_BIND_MW, umr: true, uc: true},
}

// reader reads a send, segment after segment, and notes all that is wrong with it.
type reader struct {
	*send
	q    *QP
	rest []byte // that no segment took yet
	mask []byte // of the control segment
}

func (c *reader) note(format string, args ...any) {
	c.bad = true
	c.q.m.note("%v: send at block %d: "+format, append([]any{c.q, uint16(c.at)}, args...)...)
}

// takeSends reads the sends up to where the record tells.
func (q *QP) takeSends(to uint32) {
	for q.told != to {
		s := q.readSend(to)
		q.told += s.blocks
		q.sends = append(q.sends, s)
	}
}

func (q *QP) readSend(to uint32) *send {
	left := to - q.told
	q.sq.read(q, q.told, q.head[:])
	segs := uint32(q.head[7] & 0x3f)
	blocks := (segs + 3) / 4
	if blocks == 0 || blocks > left {
		blocks = 1
	}
	s := &send{at: q.told, first: q.head}
	s.raw = append(s.first[:], make([]byte, (blocks-1)*block)...)
	q.sq.read(q, q.told+1, s.raw[block:])
	b := s.raw
	q.m.k.CrossSend(q.qp, b)
	segs = uint32(b[7] & 0x3f)
	s.Work, s.blocks, s.code = &s.work, max(1, (segs+3)/4), b[3]
	c := &reader{q: q, send: s}
	c.Opcode, c.Index, c.SGL = fakeverbs.NoOpcode, uint32(uint16(q.told)), c.SGLRoom[:0]
	if segs == 0 || c.blocks > left || int(segs)*16 > len(b) {
		c.note("it has %d segments, and the record leaves %d blocks", segs, left)
		c.blocks = left
		return c.send
	}
	c.rest = b[16 : segs*16]
	c.control(b[:16])
	c.segments()
	return c.send
}

// control reads the segment that all sends begin with.
func (c *reader) control(b []byte) {
	if b[0] != 0 {
		c.note("its operation is modified by %#x", b[0])
	}
	if at := binary.BigEndian.Uint16(b[1:]); at != uint16(c.at) {
		c.note("it says that it is at %d", at)
	}
	if num := binary.BigEndian.Uint32(b[4:]) >> 8; num != c.q.qp.Num {
		c.note("it says that it is of QP %d", num)
	}
	if b[7]&0xc0 != 0 || b[8]|b[9]|b[10] != 0 {
		c.note("reserved bits or a signature are set: %x", b[7:11])
	}
	c.flags(b[11])
	c.mask = b
}

// flags: when a completion is written, whether it is solicited, and what the send waits for.
func (c *reader) flags(f uint8) {
	if f&0x11 != 0 {
		c.note("reserved flags are set: %#x", f)
	}
	switch f >> 2 & 3 {
	case 0:
		if c.q.qp.Flags&abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0 {
			c.note("it asks for no completion, though its QP does for all")
		}
	case 2:
		c.Flags |= abi.IB_SEND_SIGNALED
	default:
		c.note("it asks for a completion of kind %d", f>>2&3)
	}
	if f&2 != 0 {
		c.Flags |= abi.IB_SEND_SOLICITED
	}
	switch f >> 5 {
	case 0:
		if c.q.keys {
			c.note("it does not wait for the change of a key before it")
		}
	case 1:
		if !c.q.keys {
			c.note("it waits for a change of a key, and there is none before it")
		}
	case 4:
		c.Flags |= abi.IB_SEND_FENCE
	default:
		c.note("its fence is %d", f>>5)
	}
	c.q.keys = false
}

// take cuts off the next n bytes.
func (c *reader) take(what string, n int) []byte {
	if len(c.rest) < n {
		c.note("%d bytes are left for %s of %d", len(c.rest), what, n)
		c.rest = nil
		return make([]byte, n)
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *reader) segments() {
	parts, ok := operations[c.code]
	typ := c.q.qp.Type
	if !ok || typ == abi.IB_UVERBS_QPT_UD && !parts.ud || typ == abi.IB_UVERBS_QPT_UC && !parts.uc || c.q.isRaw() && !parts.raw {
		c.note("operation %#x is none of its QP", c.code)
		return
	}
	c.Opcode = parts.verb
	c.immediate()
	switch {
	case parts.umr:
		c.umr()
	case typ == abi.IB_UVERBS_QPT_XRC_INI:
		c.sharedNumber()
	}
	if typ == abi.IB_UVERBS_QPT_UD {
		c.address(c.take("an address", 48))
	}
	if c.q.isRaw() {
		c.ethernet()
	}
	if parts.remote {
		b := c.take("a remote address", 16)
		c.RemoteAddr, c.RKey = binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])
		c.wantZeros("the remote address", b[12:])
	}
	if parts.atomic {
		c.operands()
	}
	if parts.data {
		c.data(&parts)
	}
	if len(c.rest) > 0 {
		c.note("%d bytes are left behind its last segment", len(c.rest))
	}
}

func (c *reader) wantZeros(where string, b []byte) {
	for _, v := range b {
		if v != 0 {
			c.note("reserved bytes of %s are set: %x", where, b)
			return
		}
	}
}

// immediate reads the last word of the control segment: a number as it stands, or a key.
func (c *reader) immediate() {
	b := c.mask[12:]
	switch c.Opcode {
	case abi.IB_UVERBS_WR_SEND_WITH_IMM, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		c.Imm = binary.NativeEndian.Uint32(b)
	case abi.IB_UVERBS_WR_SEND_WITH_INV, abi.IB_UVERBS_WR_BIND_MW:
		c.Imm = binary.BigEndian.Uint32(b)
	default:
		c.wantZeros("an operation without immediate data", b)
	}
}

func (c *reader) operands() {
	if c.q.m.options.NoAtomics {
		c.note("the device has no atomics")
	}
	b := c.take("the operands of an atomic", 16)
	first, second := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	if c.Opcode == abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP {
		c.Swap, c.Compare = first, second
		return
	}
	c.Compare = first
	c.wantZeros("an addition", b[8:])
}

// data reads SGEs, or one piece of inline data, up to the end.
func (c *reader) data(parts *parts) {
	if len(c.rest) > 0 && c.rest[0]&0x80 != 0 {
		c.inlineData(parts.inline)
		return
	}
	for len(c.rest) > 0 {
		b := c.take("an SGE", 16)
		s := fakeverbs.SGE{Length: binary.BigEndian.Uint32(b), LKey: binary.BigEndian.Uint32(b[4:]), Addr: binary.BigEndian.Uint64(b[8:])}
		if s.Length == 0 || s.Length&(1<<31) != 0 {
			c.note("an SGE of %#x bytes", s.Length)
		}
		c.SGL = append(c.SGL, s)
	}
	if len(c.SGL) > int(c.q.qp.Cap.MaxSendSge) {
		c.note("%d SGEs, of %d", len(c.SGL), c.q.qp.Cap.MaxSendSge)
	}
	if parts.atomic && (len(c.SGL) != 1 || c.SGL[0].Length != 8) {
		c.note("the result of an atomic goes to %v", c.SGL)
	}
}

func (c *reader) inlineData(allowed bool) {
	n := int(binary.BigEndian.Uint32(c.rest) &^ (1 << 31))
	if !allowed {
		c.note("operation %#x has inline data", c.code)
	}
	if want := (4 + n + 15) / 16 * 16; n == 0 || want != len(c.rest) {
		c.note("%d bytes inline, in %d", n, len(c.rest))
		n = min(n, len(c.rest)-4)
	}
	c.Flags |= abi.IB_SEND_INLINE
	c.Inline = slices.Clone(c.rest[4:][:n])
	c.rest = nil
}
