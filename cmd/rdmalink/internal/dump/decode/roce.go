package decode

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// roce reads a datagram that is sent to RoCE's port.
func roce(p datagram) Message {
	c := cursor{b: p.body}
	c.take(4)
	size := int(c.u16()) // as in UDP
	c.take(2)
	var m Message
	if c.short || size > p.size || size < 8 {
		m.Layers = append(m.Layers, damaged("UDP's length is not the packet's"))
		return m
	}
	trailer := ""
	if size <= len(p.body) {
		p.body = p.body[:size]
	} else {
		trailer = "not captured"
	}
	c.b = p.body[8:]
	if trailer == "" && len(c.b) >= icrcSize {
		c.b = c.b[:len(c.b)-icrcSize]
		trailer = checkICRC(p)
	}
	whole := len(c.b)
	bth, opcode, pad := readBTH(&c)
	m.Layers = append(m.Layers, bth)
	service, op := opcodeOf(opcode)
	m.Layers = append(m.Layers, extended(&c, service, op.parts)...)
	if opcode == opcodeCNP {
		c.take(16) // reserved
	}
	if c.short {
		m.Layers = append(m.Layers, damaged("the packet ends within its headers"))
		return m
	}
	payload := size - 8 - icrcSize - (whole - len(c.b)) - pad
	l := Layer{Name: "payload"}
	l.add("length", max(payload, 0))
	if pad > 0 {
		l.add("pad", pad)
	}
	if payload < 0 {
		l.add("wrong", "the pad is longer than what is left")
	}
	if qpn, _ := m.Field("BTH", "dest_qpn").(Hex); service == serviceUD && qpn == 1 {
		m.Layers = append(m.Layers, mad(c.b)...)
	}
	icrc := Layer{Name: "ICRC"}
	icrc.add("check", trailer)
	m.Layers = append(m.Layers, l, icrc)
	return m
}

// readBTH reads the base transport header.
func readBTH(c *cursor) (l Layer, opcode byte, pad int) {
	opcode = byte(c.u8())
	_, op := opcodeOf(opcode)
	flags := c.u8()
	pad = int(flags >> 4 & 3)
	l.Name = "BTH"
	l.add("operation", op.name)
	l.add("opcode", uint64(opcode))
	l.flag("solicited", flags&0x80 != 0)
	l.flag("migrated", flags&0x40 != 0)
	l.add("pad", pad)
	l.add("version", flags&15)
	l.add("pkey", Hex(c.u16()))
	congestion := c.u8()
	l.flag("fecn", congestion&0x80 != 0)
	l.flag("becn", congestion&0x40 != 0)
	l.add("dest_qpn", Hex(c.u24()))
	l.flag("ack_request", c.u8()&0x80 != 0)
	l.add("psn", c.u24())
	return l, opcode, pad
}

// extended reads the headers between BTH and payload.
func extended(c *cursor, service byte, p parts) (all []Layer) {
	add := func(name string, read func(l *Layer)) {
		l := Layer{Name: name}
		read(&l)
		all = append(all, l)
	}
	if service == serviceRD {
		add("RDETH", func(l *Layer) { c.take(1); l.add("ee_context", c.u24()) })
	}
	if service == serviceRD && p&isResponse == 0 || service == serviceUD {
		add("DETH", func(l *Layer) { l.add("qkey", Hex(c.u32())); c.take(1); l.add("src_qpn", Hex(c.u24())) })
	}
	if service == serviceXRC && p&isResponse == 0 {
		add("XRCETH", func(l *Layer) { c.take(1); l.add("srqn", Hex(c.u24())) })
	}
	for _, one := range extensions {
		if p&one.part != 0 {
			add(one.name, func(l *Layer) { one.read(l, c) })
		}
	}
	return all
}

// extensions are in the order in which they stand.
var extensions = []struct {
	part parts
	name string
	read func(l *Layer, c *cursor)
}{
	{hasFETH, "FETH", func(l *Layer, c *cursor) {
		v := c.u32()
		l.add("placement", v&15)
		l.add("selectivity", v>>4&3)
	}},
	{hasRETH, "RETH", func(l *Layer, c *cursor) {
		l.add("va", Hex(c.u64()))
		l.add("rkey", Hex(c.u32()))
		l.add("dma_length", c.u32())
	}},
	{hasAtomicETH, "AtomicETH", func(l *Layer, c *cursor) {
		l.add("va", Hex(c.u64()))
		l.add("rkey", Hex(c.u32()))
		l.add("swap_add", c.u64())
		l.add("compare", c.u64())
	}},
	{hasAETH, "AETH", func(l *Layer, c *cursor) {
		s := byte(c.u8())
		l.add("syndrome", syndrome(s))
		l.add("syndrome_number", uint64(s))
		l.add("msn", c.u24())
	}},
	{hasAtomicAckETH, "AtomicAckETH", func(l *Layer, c *cursor) { l.add("original", c.u64()) }},
	{hasImmDt, "ImmDt", func(l *Layer, c *cursor) { l.add("immediate", Hex(c.u32())) }},
	{hasIETH, "IETH", func(l *Layer, c *cursor) { l.add("rkey", Hex(c.u32())) }},
}

// rnrHundredths is how long to wait after an RNR NAK, in hundredths of a millisecond (IBA
// specification, volume 1, table 45).
var rnrHundredths = [32]int{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152}

var naks = map[byte]string{0: "PSN sequence error", 1: "invalid request", 2: "remote access error", 3: "remote operational error", 4: "invalid RD request"}

// syndrome returns the meaning of an acknowledgement.
func syndrome(s byte) string {
	low := s & 31
	switch s >> 5 {
	case 0:
		if low == 31 {
			return "ACK, no credits counted"
		}
		return fmt.Sprintf("ACK, credit code %d", low)
	case 1:
		return fmt.Sprintf("RNR NAK, wait %.2f ms", float64(rnrHundredths[low])/100)
	case 3:
		if about, ok := naks[low]; ok {
			return "NAK, " + about
		}
		return fmt.Sprintf("NAK code %d", low)
	}
	return fmt.Sprintf("syndrome %#x", s)
}

// parts are the extended headers that an operation has, in their order.
type parts uint

const (
	hasRETH parts = 1 << iota
	hasAtomicETH
	hasAETH
	hasAtomicAckETH
	hasImmDt
	hasIETH
	hasFETH
	isResponse // and therefore without XRCETH
)

// operation is the meaning of the lower five bits of an opcode (IBA specification,
// volume 1, table 38; FLUSH and ATOMIC_WRITE of annex A19).
type operation struct {
	name  string
	parts parts
}

var operations = map[byte]operation{
	0:  {"SEND_FIRST", 0},
	1:  {"SEND_MIDDLE", 0},
	2:  {"SEND_LAST", 0},
	3:  {"SEND_LAST_WITH_IMMEDIATE", hasImmDt},
	4:  {"SEND_ONLY", 0},
	5:  {"SEND_ONLY_WITH_IMMEDIATE", hasImmDt},
	6:  {"RDMA_WRITE_FIRST", hasRETH},
	7:  {"RDMA_WRITE_MIDDLE", 0},
	8:  {"RDMA_WRITE_LAST", 0},
	9:  {"RDMA_WRITE_LAST_WITH_IMMEDIATE", hasImmDt},
	10: {"RDMA_WRITE_ONLY", hasRETH},
	11: {"RDMA_WRITE_ONLY_WITH_IMMEDIATE", hasRETH | hasImmDt},
	12: {"RDMA_READ_REQUEST", hasRETH},
	13: {"RDMA_READ_RESPONSE_FIRST", hasAETH | isResponse},
	14: {"RDMA_READ_RESPONSE_MIDDLE", isResponse},
	15: {"RDMA_READ_RESPONSE_LAST", hasAETH | isResponse},
	16: {"RDMA_READ_RESPONSE_ONLY", hasAETH | isResponse},
	17: {"ACKNOWLEDGE", hasAETH | isResponse},
	18: {"ATOMIC_ACKNOWLEDGE", hasAETH | hasAtomicAckETH | isResponse},
	19: {"COMPARE_SWAP", hasAtomicETH},
	20: {"FETCH_ADD", hasAtomicETH},
	22: {"SEND_LAST_WITH_INVALIDATE", hasIETH},
	23: {"SEND_ONLY_WITH_INVALIDATE", hasIETH},
	28: {"FLUSH", hasFETH | hasRETH},
	29: {"ATOMIC_WRITE", hasRETH},
}

// Services are the upper three bits.
const (
	serviceRD  = 2
	serviceUD  = 3
	serviceCNP = 4
	serviceXRC = 5

	opcodeCNP = 0x81
)

var services = [8]string{"RC", "UC", "RD", "UD", "CNP", "XRC", "service 6", "service 7"}

// opcodeOf splits an opcode. An unknown opcode is named by its number.
func opcodeOf(opcode byte) (service byte, op operation) {
	service = opcode >> 5
	if opcode == opcodeCNP {
		return service, operation{name: "CNP"}
	}
	op, ok := operations[opcode&31]
	if !ok || service == serviceCNP {
		return service, operation{name: fmt.Sprintf("opcode %#x", opcode)}
	}
	op.name = services[service] + " " + op.name
	return service, op
}

const icrcSize = 4

// checkICRC computes the invariant CRC of a whole RoCE v2 packet. Fields that routers
// change count as all ones, as do 8 bytes in the place of InfiniBand's own header
// (IBA specification, annex A17.3.3).
func checkICRC(p datagram) string {
	at := len(p.body) - icrcSize
	if at < 8+12 {
		return "too short for one"
	}
	head := append([]byte{255, 255, 255, 255, 255, 255, 255, 255}, p.head...)
	ip := head[8:]
	if ip[0]>>4 == 4 {
		ip[1], ip[8], ip[10], ip[11] = 255, 255, 255, 255 // TOS, TTL, checksum
	} else {
		ip[0], ip[1], ip[2], ip[3], ip[7] = ip[0]|15, 255, 255, 255, 255 // class, flow label, hop limit
	}
	transport := append([]byte(nil), p.body[:at]...)
	transport[6], transport[7] = 255, 255 // UDP's checksum
	transport[8+4] = 255                  // FECN, BECN and reserved bits
	sum := crc32.Update(crc32.ChecksumIEEE(head), crc32.IEEETable, transport)
	if sum != binary.LittleEndian.Uint32(p.body[at:]) {
		return "incorrect"
	}
	return "correct"
}
