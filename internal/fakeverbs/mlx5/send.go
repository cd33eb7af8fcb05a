package mlx5

import (
	"encoding/binary"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// send is a send that the device has read.
type send struct {
	*fakeverbs.Work
	at     uint32 // the first block, free-running
	blocks uint32
	code   uint8
	raw    []byte
	bad    bool // malformed, so the device completes it with an error
}

// parts describes the segments of an operation after the first one, in order.
type parts struct {
	verb           uint32
	remote, atomic bool
	umr            bool
	data           bool
	inline         bool // whether data may be inline
	ud             bool // whether UD supports it
	uc             bool // whether UC supports it
	raw            bool // whether raw packet QPs support it
	cut            bool // whether the device segments it into packets
}

var operations = [...]*parts{
	0x00: {verb: fakeverbs.NOP, ud: true, uc: true, raw: true}, // of a control segment alone, whatever the QP,
	0x01: {verb: abi.IB_UVERBS_WR_SEND_WITH_INV, data: true, inline: true},
	0x08: {verb: abi.IB_UVERBS_WR_RDMA_WRITE, remote: true, data: true, inline: true, uc: true},
	0x09: {verb: abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, remote: true, data: true, inline: true, uc: true},
	0x0a: {verb: abi.IB_UVERBS_WR_SEND, data: true, inline: true, ud: true, uc: true, raw: true},
	0x0b: {verb: abi.IB_UVERBS_WR_SEND_WITH_IMM, data: true, inline: true, ud: true, uc: true},
	0x0e: {verb: abi.IB_UVERBS_WR_TSO, data: true, raw: true, cut: true},
	0x10: {verb: abi.IB_UVERBS_WR_RDMA_READ, remote: true, data: true},
	0x11: {verb: abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, remote: true, atomic: true, data: true},
	0x12: {verb: abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, remote: true, atomic: true, data: true},
	0x25: {verb: abi.IB_UVERBS_WR_BIND_MW, umr: true, uc: true},
}

// reader reads a send segment by segment, and records all of its errors.
type reader struct {
	*send
	q    *QP
	rest []byte // bytes that haven't been read
	mask []byte // the control segment
}

func (c *reader) note(format string, args ...any) {
	c.bad = true
	c.q.m.note("%v: send at block %d: "+format, append([]any{c.q, uint16(c.at)}, args...)...)
}

// takeSends reads the sends up to the record's index.
func (q *QP) takeSends(to uint32) {
	q.ahead = q.ahead[:0]
	for q.posted != to {
		q.readAhead(to)
		s := q.readSend(to)
		q.posted += s.blocks
		q.sends.Push(s)
	}
}

// mostAhead is the number of blocks that are read together, because each read may be a system call.
const mostAhead = 64

// readAhead reads the next posted blocks unless they have been read.
func (q *QP) readAhead(to uint32) {
	if int(q.posted-q.aheadAt)*block < len(q.ahead) {
		return
	}
	n := int(min(to-q.posted, mostAhead)) * block
	q.ahead, q.aheadAt = slices.Grow(q.ahead[:0], n)[:n], q.posted
	q.sq.read(q, q.posted, q.ahead)
}

// read copies posted blocks, beginning at a free-running index.
func (q *QP) read(from uint32, b []byte) {
	n := 0
	if at := int(from-q.aheadAt) * block; at < len(q.ahead) {
		n = copy(b, q.ahead[at:])
	}
	q.sq.read(q, from+uint32(n/block), b[n:])
}

func (q *QP) readSend(to uint32) *send {
	left := to - q.posted
	q.read(q.posted, q.head[:])
	segs := uint32(q.head[7] & 0x3f)
	blocks := (segs + 3) / 4
	if blocks == 0 || blocks > left {
		blocks = 1
	}
	s := q.newSend()
	*s = send{Work: q.m.k.NewWork(), at: q.posted, raw: append(append(s.raw[:0], q.head[:]...), make([]byte, (blocks-1)*block)...)}
	q.read(q.posted+1, s.raw[block:])
	b := s.raw
	q.m.k.CrossSend(q.qp, b)
	segs = uint32(b[7] & 0x3f)
	s.blocks, s.code = max(1, (segs+3)/4), b[3]
	c := &q.reading
	*c = reader{q: q, send: s}
	c.Opcode, c.Index, c.SGL = fakeverbs.NoOpcode, uint32(uint16(q.posted)), c.SGLRoom[:0]
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

// newSend returns a send, which may have been used before.
func (q *QP) newSend() *send {
	n := len(q.spare) - 1
	if n < 0 {
		return new(send)
	}
	s := q.spare[n]
	q.spare = q.spare[:n]
	return s
}

// control reads the first segment of a send.
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
	stream := binary.BigEndian.Uint16(b[9:])
	if b[7]&0xc0 != 0 || b[8] != 0 || stream != 0 && c.q.streams == nil && !(c.q.isInitiator() && c.q.m.options.OldBytes) {
		c.note("reserved bits or a signature are set: %x", b[7:11])
	}
	if c.q.streams != nil {
		c.Stream = stream
	}
	c.flags(b[11])
	c.mask = b
}

// flags reads the flags for completions, solicited events and fences.
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

// take reads the next n bytes.
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
	var parts *parts
	if int(c.code) < len(operations) {
		parts = operations[c.code]
	}
	typ := c.q.qp.Type
	if parts == nil || typ == abi.IB_UVERBS_QPT_UD && !parts.ud || typ == abi.IB_UVERBS_QPT_UC && !parts.uc || c.q.isRaw() && !parts.raw || parts.cut && !c.q.isRaw() {
		c.note("operation %#x is none of its QP", c.code)
		return
	}
	c.Opcode = parts.verb
	c.immediate()
	switch {
	case c.Opcode == fakeverbs.NOP:
		return
	case parts.umr:
		c.umr()
	case typ == abi.IB_UVERBS_QPT_XRC_INI:
		c.sharedNumber()
	}
	if typ == abi.IB_UVERBS_QPT_UD || c.q.isInitiator() && !parts.umr {
		c.address(c.take("an address", 48))
	}
	if c.q.isRaw() {
		c.ethernet(parts.cut)
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
		c.data(parts)
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

// immediate reads the last word of the control segment, which is immediate data in wire order or a key.
func (c *reader) immediate() {
	b := c.mask[12:]
	switch c.Opcode {
	case abi.IB_UVERBS_WR_SEND_WITH_IMM, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		c.Imm = binary.NativeEndian.Uint32(b)
	case abi.IB_UVERBS_WR_SEND_WITH_INV, abi.IB_UVERBS_WR_BIND_MW:
		c.Imm = binary.BigEndian.Uint32(b)
	default:
		c.wantUnused("an operation without immediate data", b)
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
	c.wantUnused("an addition", b[8:])
}

// data reads SGEs up to the end, or one piece of inline data. UCX sends a header inline and its data from
// memory.
func (c *reader) data(parts *parts) {
	if len(c.rest) > 0 && c.rest[0]&0x80 != 0 {
		if c.inlineData(parts.inline); len(c.rest) == 0 {
			return
		}
		c.Flags &^= abi.IB_SEND_INLINE
		c.Front, c.Inline = c.Inline, nil
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
	end := (4 + n + 15) / 16 * 16
	if n == 0 || end > len(c.rest) || end < len(c.rest) && !c.q.m.options.OldBytes {
		c.note("%d bytes inline, in %d", n, len(c.rest))
		n, end = min(n, len(c.rest)-4), len(c.rest)
	}
	c.Flags |= abi.IB_SEND_INLINE
	c.SetInline(c.rest[4:][:n])
	c.rest = c.rest[end:]
}

// The parts of a key in the mask of a change.
const (
	maskLength = 1 << 0
	maskStart  = 1 << 6
	maskKey    = 1 << 13
	maskQPN    = 1 << 14
	maskRights = 1<<18 | 1<<19 | 1<<20 | 1<<21
	maskFree   = 1 << 29
)

// umr reads a change of a key, which binds or unbinds a window, or invalidates a key.
func (c *reader) umr() {
	head, key := c.take("what a change of a key changes", 48), c.take("a key", 64)
	c.q.keys = true
	old := c.Imm
	c.Imm = 0
	mask := binary.BigEndian.Uint64(head[8:])
	type2, binds := mask&maskQPN != 0, mask&maskLength != 0
	c.checkHead(head, mask, type2, binds)
	fixed, word := key[0], binary.BigEndian.Uint32(key[4:])
	c.wantUnused("a key", key[1:2])
	c.wantUnused("a key", key[3:4])
	c.wantUnused("a key", key[8:16])
	c.wantUnused("a key", key[32:])
	qpn := word >> 8
	switch {
	case binds && type2 && qpn != c.q.qp.Num, !(binds && type2) && qpn != 0xffffff:
		c.note("the key becomes that of QP %#x", qpn)
	case binds && fixed != 0, !binds && fixed != 0x40:
		c.note("the key is marked %#x, free is 0x40", fixed)
	}
	if !binds {
		c.wantUnused("a key", key[2:3])
		c.wantUnused("a key", key[16:32])
		if type2 {
			c.Opcode, c.Imm = abi.IB_UVERBS_WR_LOCAL_INV, old
			return
		}
		c.Bind = fakeverbs.Binding{RKey: old, NewRKey: old&^0xff | word&0xff}
		return
	}
	c.binding(key, old, word)
}

// wantUnused checks that unused bytes are zero. libmlx5 doesn't set them.
func (c *reader) wantUnused(where string, b []byte) {
	if !c.q.m.options.OldBytes {
		c.wantZeros(where, b)
	}
}

func (c *reader) checkHead(head []byte, mask uint64, type2, binds bool) {
	flags, lists, want := uint8(0x90), uint16(0), uint64(maskFree|maskKey)
	if type2 {
		want |= maskQPN
	}
	switch {
	case binds:
		want |= maskLength | maskStart | maskRights
		lists = 4
		if type2 {
			flags |= 0x20
		}
	case type2:
		flags |= 0x08
	}
	if head[0] != flags {
		c.note("the change of a key has flags %#x, not %#x", head[0], flags)
	}
	if got := binary.BigEndian.Uint16(head[4:]); got != lists {
		c.note("the change of a key has %d units of lists, not %d", got, lists)
	}
	if mask != want {
		c.note("the change of a key changes %#x, not %#x", mask, want)
	}
	c.wantZeros("the change of a key", head[1:4])
	c.wantZeros("the change of a key", head[6:8])
	c.wantZeros("the change of a key", head[16:])
}

// binding reads the memory of a window from the key and from the list of one entry after it.
func (c *reader) binding(key []byte, old, word uint32) {
	list := c.take("a list", 64)
	c.wantZeros("a list", list[16:])
	b := fakeverbs.Binding{
		RKey: old, NewRKey: old&^0xff | word&0xff, Length: binary.BigEndian.Uint64(key[24:]),
		Addr: binary.BigEndian.Uint64(list[8:]), LKey: binary.BigEndian.Uint32(list[4:]),
	}
	if n := uint64(binary.BigEndian.Uint32(list)); n != b.Length {
		c.note("a window of %d bytes, of a list of %d", b.Length, n)
	}
	for bit, access := range map[uint8]uint32{
		0x40: abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC, 0x20: abi.IB_UVERBS_ACCESS_REMOTE_WRITE,
		0x10: abi.IB_UVERBS_ACCESS_REMOTE_READ, 0x08: abi.IB_UVERBS_ACCESS_LOCAL_WRITE,
	} {
		if key[2]&bit != 0 {
			b.Access |= access
		}
	}
	if key[2]&^0x78 != 0 {
		c.note("unknown rights of a key: %#x", key[2])
	}
	switch start := binary.BigEndian.Uint64(key[16:]); start {
	case b.Addr:
	case 0:
		b.Access |= abi.IB_UVERBS_ACCESS_ZERO_BASED
	default:
		c.note("a window starts at %#x, and its list at %#x", start, b.Addr)
	}
	c.Bind = b
}

// address reads the destination of a datagram.
func (c *reader) address(b []byte) {
	c.wantZeros("an address", b[16:20])
	num := binary.BigEndian.Uint32(b[8:])
	if num>>24 != 0x80 {
		c.note("the word with the number of the peer's QP is %#x", num)
	}
	c.To = fakeverbs.Destination{QPN: num & 0xffffff}
	if c.q.isInitiator() {
		c.To.Key = binary.BigEndian.Uint64(b)
	} else {
		c.To.QKey = binary.BigEndian.Uint32(b)
		c.wantZeros("an address", b[4:8])
	}
	port, word := binary.BigEndian.Uint16(b[14:]), binary.BigEndian.Uint32(b[28:])
	a := abi.IbUverbsAhAttr{PortNum: 1, IsGlobal: 1, StaticRate: b[12] >> 4}
	copy(a.Grh.Dgid[:], b[32:48])
	a.Grh.SgidIndex, a.Grh.FlowLabel = uint8(word>>20), word&flowLabel
	a.Grh.TrafficClass, a.Grh.HopLimit = b[26], b[27]
	if c.q.m.options.Infiniband {
		a.Sl, a.Dlid, a.SrcPathBits = b[12]&0xf, port, b[13]&0x7f
		a.IsGlobal = uint8(word >> 30 & 1)
		if word>>31 != 0 || b[13]&0x80 != 0 {
			c.note("reserved bits of the address are set: %x", b)
		}
		c.wantZeros("an address of InfiniBand, which has no MAC,", b[20:26])
		c.To.AH = &fakeverbs.AH{Attr: a}
		return
	}
	if a.Sl = b[12] & 0xf >> 1; b[12]&1 != 0 || b[13] != 0 || word>>28 != 0 {
		c.note("the address says of RoCE what is InfiniBand's: %x", b)
	}
	c.roce(&a, b[20:26], port)
}

// flowLabel is the bits of a flow label.
const flowLabel = 1<<20 - 1

// roce compares an address with the kernel's answer for CREATE_AH.
func (c *reader) roce(a *abi.IbUverbsAhAttr, mac []byte, port uint16) {
	if want := mlx5MAC(a.Grh.Dgid); string(mac) != string(want[:]) {
		c.note("the MAC is %x, and the kernel said %x", mac, want)
	}
	gid, err := c.q.m.k.GID(uint32(a.Grh.SgidIndex))
	if err != nil {
		c.note("the address goes out from GID %d, which is none", a.Grh.SgidIndex)
		return
	}
	label := a.Grh.FlowLabel
	switch {
	case gid.GidType != abi.IB_UVERBS_GID_TYPE_ROCE_V2:
		if port != 0 {
			c.note("RoCE v1 has no port of UDP, and the address has %#x", port)
		}
	case port < 0xc000:
		c.note("the port of UDP is %#x", port)
	case label != 0 && port != uint16(label&0x3fff^label>>14)|0xc000:
		c.note("the port of UDP is %#x, and the flow label %#x", port, label)
	}
	for ah := range fakeverbs.Objects[*fakeverbs.AH](c.q.m.k) {
		known := ah.Attr.Grh
		known.FlowLabel &= flowLabel // programs may set more bits, which go nowhere
		if known == a.Grh && ah.Attr.Sl&7 == a.Sl {
			c.To.AH = ah
			return
		}
	}
	c.note("the kernel knows of no such address")
}

func (q *QP) isRaw() bool { return q.qp.Type == abi.IB_UVERBS_QPT_RAW_PACKET }

const (
	checksums  = 0xc0 // checksums of layers 3 and 4, which the device fills in
	ethHeader  = 18   // including a VLAN tag
	ethFrameAt = 14
	l3Right    = 0x02
	l4Right    = 0x04
)

// checks returns the bytes of a completion that describe a packet: the valid checksums and the headers.
func checks(p *fakeverbs.Packet) (b [2]byte) {
	for _, c := range []struct {
		is   bool
		at   int
		bits byte
	}{
		{p.L3OK, 0, l3Right}, {p.L4OK, 0, l4Right}, {p.Stripped, 1, 1},
		{p.IPv6, 1, 1 << 2}, {p.IPv4, 1, 2 << 2}, {p.UDP, 1, 2 << 4}, {p.TCP, 1, 4 << 4},
	} {
		if c.is {
			b[c.at] |= c.bits
		}
	}
	return b
}

// ethernet reads the segment before a raw packet. It has the checksums that the device fills in, and the
// start of the frame. The device requires a minimum and accepts more. A TSO has all headers there.
func (c *reader) ethernet(cut bool) {
	want := 0
	if c.q.m.options.InlineHeaders {
		want = ethHeader
	}
	if len(c.rest) < 16 {
		c.take("an Ethernet segment", 16)
		return
	}
	n, mss := int(binary.BigEndian.Uint16(c.rest[12:])), binary.BigEndian.Uint16(c.rest[6:])
	switch {
	case cut && (mss == 0 || n < max(14, want)):
		c.note("a TSO has %d bytes of headers, and an MSS of %d", n, mss)
	case !cut && mss != 0:
		c.note("an MSS of %d, and nothing is cut", mss)
	case n < want:
		c.note("%d bytes of the frame are in the request, and the device wants %d", n, want)
	}
	b := c.take("an Ethernet segment", (ethFrameAt+max(n, 2)+15)&^15)
	if len(b) < ethFrameAt+n {
		return
	}
	switch b[4] {
	case 0:
	case checksums:
		c.Flags |= abi.IB_SEND_IP_CSUM
	default:
		c.note("the checksums to fill in are %#x", b[4])
	}
	c.wantZeros("an Ethernet segment", b[:4])
	c.wantZeros("an Ethernet segment", b[5:6])
	c.wantZeros("an Ethernet segment", b[8:12])
	c.wantZeros("an Ethernet segment", b[ethFrameAt+n:])
	c.Front, c.MSS = append([]byte(nil), b[ethFrameAt:][:n]...), mss
}

// CreateFlow creates a flow rule. It refuses headers and actions that the model doesn't know.
func (m *model) CreateFlow(f *fakeverbs.Flow, r *ioctl.Request) error {
	var counters *fakeverbs.Counters
	for _, s := range f.Specs {
		switch s.Type {
		case fakeverbs.FlowEthernet, fakeverbs.FlowIPv4, fakeverbs.FlowIPv6, fakeverbs.FlowTCP, fakeverbs.FlowUDP, fakeverbs.FlowDrop:
		case fakeverbs.FlowTag:
			if binary.NativeEndian.Uint32(s.Val) >= 1<<24 {
				return syscall.EINVAL
			}
		case fakeverbs.FlowCount:
			if counters != nil {
				return syscall.EINVAL
			}
			counters = s.Counters
		default:
			return syscall.EOPNOTSUPP
		}
	}
	return m.countersOf(counters, r)
}

// countersOf reads the kinds of a rule's counters. Only the first rule that uses the counters has them.
func (m *model) countersOf(c *fakeverbs.Counters, r *ioctl.Request) error {
	const call, head, kind = "CREATE_FLOW", 24, 8
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	if len(b) == 0 || len(b) >= kind && fakeverbs.IsZero(b) {
		if c != nil && c.Kinds == nil {
			return syscall.EINVAL
		}
		return nil
	}
	if len(b) < head || binary.NativeEndian.Uint32(b) != 1 || binary.NativeEndian.Uint32(b[4:]) != 0 || binary.NativeEndian.Uint32(b[20:]) != 0 {
		return syscall.EINVAL
	}
	if c == nil {
		m.note("%s has kinds of counters, and no counters", call)
		return nil
	}
	if c.Kinds != nil {
		return syscall.EINVAL
	}
	addr, n := binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint32(b[16:])
	if n == 0 || n > 1<<16/kind {
		return syscall.EINVAL
	}
	list := make([]byte, n*kind)
	if m.k.User.Read(addr, list) != nil {
		return syscall.EFAULT
	}
	var kinds []fakeverbs.CounterKind
	for ; len(list) > 0; list = list[kind:] {
		k := fakeverbs.CounterKind{Kind: binary.NativeEndian.Uint32(list), Index: binary.NativeEndian.Uint32(list[4:])}
		if k.Kind > 1 {
			return syscall.EINVAL
		}
		kinds = append(kinds, k)
	}
	c.Kinds = kinds
	return nil
}
