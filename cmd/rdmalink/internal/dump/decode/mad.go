package decode

import "fmt"

// Classes of management datagrams.
const classCM = 7

// cmMessage is one kind of message of the connection manager (IBA specification, volume
// 1, 12.6).
type cmMessage struct {
	name string
	read func(l *Layer, c *cursor)
}

var cmMessages = map[uint64]cmMessage{
	0x10: {"REQ", readREQ},
	0x11: {"MRA", readMRA},
	0x12: {"REJ", readREJ},
	0x13: {"REP", readREP},
	0x14: {"RTU", readIDs},
	0x15: {"DREQ", readDREQ},
	0x16: {"DREP", readIDs},
	0x17: {"SIDR_REQ", readSIDRREQ},
	0x18: {"SIDR_REP", readSIDRREP},
	0x19: {"LAP", readIDs},
	0x1a: {"APR", readIDs},
}

// mad decodes a management datagram, the content of packets to QP 1.
func mad(b []byte) []Layer {
	c := cursor{b: b}
	l := Layer{Name: "MAD"}
	c.take(1)
	class := c.u8()
	l.add("class", class)
	c.take(1)
	method := c.u8()
	l.add("method", Hex(method))
	l.add("status", Hex(c.u16()))
	c.take(2)
	l.add("transaction", Hex(c.u64()))
	attribute := c.u16()
	l.add("attribute", Hex(attribute))
	c.take(6)
	if class != classCM {
		return ended(&c, l)
	}
	kind, ok := cmMessages[attribute]
	if !ok {
		kind = cmMessage{fmt.Sprintf("attribute %#x", attribute), func(*Layer, *cursor) {}}
	}
	cm := Layer{Name: "CM"}
	cm.add("message", kind.name)
	kind.read(&cm, &c)
	return ended(&c, l, cm)
}

// ended adds that the packet was too short, if it was.
func ended(c *cursor, all ...Layer) []Layer {
	if c.short {
		all = append(all, damaged("the datagram ends within its fields"))
	}
	return all
}
