package decode

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	wire "github.com/goverbs/goverbs/internal/roce"
)

// roce reads a datagram that is sent to RoCE's port, or with udp 0 what follows the header of RoCE v1.
func roce(p datagram, udp int) Message {
	size := p.size
	var m Message
	if udp > 0 {
		c := cursor{b: p.body}
		c.take(4)
		if size = int(c.u16()); c.short {
			size = -1
		}
	}
	if size > p.size || size < udp || len(p.body) < udp {
		m.Layers = append(m.Layers, damaged("UDP's length is not the packet's"))
		return m
	}
	trailer := ""
	if size <= len(p.body) {
		p.body = p.body[:size]
	} else {
		trailer = "not captured"
	}
	seal := Layer{Name: "seal"}
	if trailer == "" {
		if plain, ok := unsealed(p, udp); ok {
			c := cursor{b: p.body[len(plain.body):]}
			seal.add("number", c.u64())
			seal.add("hmac", hex.EncodeToString(c.b))
			p, size = plain, size-wire.SealSize
		}
	}
	c := cursor{b: p.body[udp:]}
	if trailer == "" && len(c.b) >= wire.ICRCSize {
		c.b = c.b[:len(c.b)-wire.ICRCSize]
		trailer = checkICRC(p, udp)
	}
	whole := len(c.b)
	bth, opcode, pad := readBTH(&c)
	m.Layers = append(m.Layers, bth)
	service, op := opcodeOf(opcode)
	m.Layers = append(m.Layers, extended(&c, service, op.Parts)...)
	if opcode == opcodeCNP {
		c.take(16) // reserved
	}
	if c.short {
		m.Layers = append(m.Layers, damaged("the packet ends within its headers"))
		return m
	}
	payload := size - udp - wire.ICRCSize - (whole - len(c.b)) - pad
	l := Layer{Name: "payload"}
	l.add("length", max(payload, 0))
	if pad > 0 {
		l.add("pad", pad)
	}
	if payload < 0 {
		l.add("wrong", "the pad is longer than what is left")
	}
	if qpn, _ := m.Field("BTH", "dest_qpn").(Hex); service == wire.ServiceUD && qpn == 1 {
		m.Layers = append(m.Layers, mad(c.b)...)
	}
	icrc := Layer{Name: "ICRC"}
	icrc.add("check", trailer)
	m.Layers = append(m.Layers, l, icrc)
	if seal.Fields != nil {
		m.Layers = append(m.Layers, seal)
	}
	return m
}

// unsealed returns a whole packet without its seal, as the ICRC covers it. It reports whether the packet has a seal, by
// the ICRC.
func unsealed(p datagram, udp int) (datagram, bool) {
	n := len(p.body) - wire.SealSize
	if n < udp || udp == 0 || checkICRC(p, udp) == correct {
		return p, false
	}
	length := 4 // its place in the header of IPv6
	if p.head[0]>>4 == 4 {
		length = 2
	}
	p.head, p.body = slices.Clone(p.head), slices.Clone(p.body[:n])
	for _, b := range [][]byte{p.head[length:], p.body[4:]} {
		binary.BigEndian.PutUint16(b, binary.BigEndian.Uint16(b)-wire.SealSize)
	}
	return p, checkICRC(p, udp) == correct
}

// readBTH reads the base transport header.
func readBTH(c *cursor) (l Layer, opcode byte, pad int) {
	opcode = byte(c.u8())
	_, op := opcodeOf(opcode)
	flags := c.u8()
	pad = int(flags >> 4 & 3)
	l.Name = "BTH"
	l.add("operation", op.Name)
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
func extended(c *cursor, service byte, p wire.Parts) (all []Layer) {
	add := func(name string, read func(l *Layer)) {
		l := Layer{Name: name}
		read(&l)
		all = append(all, l)
	}
	if service == wire.ServiceRD {
		add("RDETH", func(l *Layer) { c.take(1); l.add("ee_context", c.u24()) })
	}
	if service == wire.ServiceRD && p&wire.IsResponse == 0 || service == wire.ServiceUD {
		add("DETH", func(l *Layer) { l.add("qkey", Hex(c.u32())); c.take(1); l.add("src_qpn", Hex(c.u24())) })
	}
	if service == wire.ServiceXRC && p&wire.IsResponse == 0 {
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
	part wire.Parts
	name string
	read func(l *Layer, c *cursor)
}{
	{wire.HasFETH, "FETH", func(l *Layer, c *cursor) {
		v := c.u32()
		l.add("placement", v&15)
		l.add("selectivity", v>>4&3)
	}},
	{wire.HasRETH, "RETH", func(l *Layer, c *cursor) {
		l.add("va", Hex(c.u64()))
		l.add("rkey", Hex(c.u32()))
		l.add("dma_length", c.u32())
	}},
	{wire.HasAtomicETH, "AtomicETH", func(l *Layer, c *cursor) {
		l.add("va", Hex(c.u64()))
		l.add("rkey", Hex(c.u32()))
		l.add("swap_add", c.u64())
		l.add("compare", c.u64())
	}},
	{wire.HasAETH, "AETH", func(l *Layer, c *cursor) {
		s := byte(c.u8())
		l.add("syndrome", syndrome(s))
		l.add("syndrome_number", uint64(s))
		l.add("msn", c.u24())
	}},
	{wire.HasAtomicAckETH, "AtomicAckETH", func(l *Layer, c *cursor) { l.add("original", c.u64()) }},
	{wire.HasImmDt, "ImmDt", func(l *Layer, c *cursor) { l.add("immediate", Hex(c.u32())) }},
	{wire.HasIETH, "IETH", func(l *Layer, c *cursor) { l.add("rkey", Hex(c.u32())) }},
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

// services are the names of the upper three bits of an opcode.
var services = [8]string{"RC", "UC", "RD", "UD", "CNP", "XRC", "service 6", "service 7"}

const opcodeCNP = 0x81

// opcodeOf splits an opcode. An unknown opcode is named by its number.
func opcodeOf(opcode byte) (service byte, op wire.Operation) {
	service = opcode >> 5
	if opcode == opcodeCNP {
		return service, wire.Operation{Name: "CNP"}
	}
	op, ok := wire.Operations[opcode&31]
	if !ok || service == wire.ServiceCNP {
		return service, wire.Operation{Name: fmt.Sprintf("opcode %#x", opcode)}
	}
	op.Name = services[service] + " " + op.Name
	return service, op
}

const correct = "correct"

// checkICRC checks the invariant CRC of a whole RoCE packet, whose transport header follows udp bytes.
func checkICRC(p datagram, udp int) string {
	at := len(p.body) - wire.ICRCSize
	if at < udp+12 {
		return "too short for one"
	}
	if wire.ICRC(p.head, p.body[:at], udp) != binary.LittleEndian.Uint32(p.body[at:]) {
		return "incorrect"
	}
	return correct
}
