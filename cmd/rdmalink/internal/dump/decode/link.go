package decode

// Types of links, as capture files number them.
const (
	LinkEthernet = 1
	LinkRaw      = 101 // IPv4 or IPv6
	LinkSLL      = 113 // Linux cooked
	LinkIPv4     = 228
	LinkIPv6     = 229
	LinkSLL2     = 276
)

const (
	etherIPv4 = 0x0800
	etherVLAN = 0x8100
	etherIPv6 = 0x86dd
	etherQinQ = 0x88a8
)

// KnowsLink reports whether packets of this link type are supported.
func KnowsLink(link uint32) bool {
	switch link {
	case LinkEthernet, LinkRaw, LinkSLL, LinkIPv4, LinkIPv6, LinkSLL2:
		return true
	}
	return false
}

// network is the packet without the header of its link.
func network(link uint32, b []byte) []byte {
	c := cursor{b: b}
	var ether uint64
	switch link {
	case LinkEthernet:
		c.take(12)
		ether = c.u16()
	case LinkSLL:
		c.take(14)
		ether = c.u16()
	case LinkSLL2:
		ether = c.u16()
		c.take(18)
	case LinkRaw, LinkIPv4, LinkIPv6:
		return b
	}
	for ether == etherVLAN || ether == etherQinQ {
		c.take(2)
		ether = c.u16()
	}
	if c.short || ether != etherIPv4 && ether != etherIPv6 {
		return nil
	}
	return c.b
}
