package fakeverbs

import (
	"encoding/binary"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
)

// mlx5Send is a send as the device found it.
type mlx5Send struct {
	*Work
	at     uint32 // the first block, free-running
	blocks uint32
	code   uint8
	raw    []byte
	first  [mlx5Block]byte // room for the raw bytes of most
	work   Work            // what Work is
	bad    bool            // malformed: the device answers with an error
}

// mlx5Parts are the segments that an operation has behind the first, in this order.
type mlx5Parts struct {
	verb           uint32
	remote, atomic bool
	umr            bool
	data           bool
	inline         bool // data may be inline
	ud             bool // a datagram may be it
	uc             bool // an unreliable connection has it
	raw            bool // a raw packet may be it
}

var mlx5Operations = map[uint8]mlx5Parts{
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

// mlx5Reader reads a send, segment after segment, and notes all that is wrong with it.
type mlx5Reader struct {
	*mlx5Send
	q    *MLX5QP
	rest []byte // that no segment took yet
	mask []byte // of the control segment
}

func (c *mlx5Reader) note(format string, args ...any) {
	c.bad = true
	c.q.m.note("%v: send at block %d: "+format, append([]any{c.q, uint16(c.at)}, args...)...)
}

// takeSends reads the sends up to where the record tells.
func (q *MLX5QP) takeSends(to uint32) {
	for q.told != to {
		s := q.readSend(to)
		q.told += s.blocks
		q.sends = append(q.sends, s)
	}
}

func (q *MLX5QP) readSend(to uint32) *mlx5Send {
	left := to - q.told
	q.sq.read(q, q.told, q.head[:])
	segs := uint32(q.head[7] & 0x3f)
	blocks := (segs + 3) / 4
	if blocks == 0 || blocks > left {
		blocks = 1
	}
	s := &mlx5Send{at: q.told, first: q.head}
	s.raw = append(s.first[:], make([]byte, (blocks-1)*mlx5Block)...)
	q.sq.read(q, q.told+1, s.raw[mlx5Block:])
	b := s.raw
	q.m.k.crossSend(q.qp, b)
	segs = uint32(b[7] & 0x3f)
	s.Work, s.blocks, s.code = &s.work, max(1, (segs+3)/4), b[3]
	c := &mlx5Reader{q: q, mlx5Send: s}
	c.Opcode, c.index, c.SGL = NoOpcode, uint32(uint16(q.told)), c.few[:0]
	if segs == 0 || c.blocks > left || int(segs)*16 > len(b) {
		c.note("it has %d segments, and the record leaves %d blocks", segs, left)
		c.blocks = left
		return c.mlx5Send
	}
	c.rest = b[16 : segs*16]
	c.control(b[:16])
	c.segments()
	return c.mlx5Send
}

// control reads the segment that all sends begin with.
func (c *mlx5Reader) control(b []byte) {
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
func (c *mlx5Reader) flags(f uint8) {
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
func (c *mlx5Reader) take(what string, n int) []byte {
	if len(c.rest) < n {
		c.note("%d bytes are left for %s of %d", len(c.rest), what, n)
		c.rest = nil
		return make([]byte, n)
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *mlx5Reader) segments() {
	parts, ok := mlx5Operations[c.code]
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

func (c *mlx5Reader) wantZeros(where string, b []byte) {
	for _, v := range b {
		if v != 0 {
			c.note("reserved bytes of %s are set: %x", where, b)
			return
		}
	}
}

// immediate reads the last word of the control segment: a number as it stands, or a key.
func (c *mlx5Reader) immediate() {
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

func (c *mlx5Reader) operands() {
	if c.q.m.k.MLX5.NoAtomics {
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
func (c *mlx5Reader) data(parts *mlx5Parts) {
	if len(c.rest) > 0 && c.rest[0]&0x80 != 0 {
		c.inlineData(parts.inline)
		return
	}
	for len(c.rest) > 0 {
		b := c.take("an SGE", 16)
		s := SGE{Length: binary.BigEndian.Uint32(b), LKey: binary.BigEndian.Uint32(b[4:]), Addr: binary.BigEndian.Uint64(b[8:])}
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

func (c *mlx5Reader) inlineData(allowed bool) {
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
