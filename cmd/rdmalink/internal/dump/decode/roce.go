package decode

import "fmt"

// roce reads a datagram that is sent to RoCE's port.
func roce(p datagram) Message {
	c := cursor{b: p.body}
	c.take(4)
	size := int(c.u16()) // as UDP has it
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
