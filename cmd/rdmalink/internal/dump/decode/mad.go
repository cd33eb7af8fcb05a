package decode

import (
	"fmt"
	"net/netip"
)

// classCM is the management class of the connection manager.
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

// ended returns the layers, and a note if the packet was too short.
func ended(c *cursor, all ...Layer) []Layer {
	if c.short {
		all = append(all, damaged("the datagram ends within its fields"))
	}
	return all
}

// readIDs reads the numbers that the two ends have given the connection. Nearly all
// messages begin with them.
func readIDs(l *Layer, c *cursor) {
	l.add("local_id", Hex(c.u32()))
	l.add("remote_id", Hex(c.u32()))
}

var transports = [4]string{"RC", "UC", "RD", "other"}

func readREQ(l *Layer, c *cursor) {
	l.add("local_id", Hex(c.u32()))
	c.take(4)
	service := c.u64()
	l.add("service_id", Hex(service))
	addService(l, service)
	l.add("ca_guid", Hex(c.u64()))
	c.take(4)
	l.add("qkey", Hex(c.u32()))
	l.add("qpn", Hex(c.u24()))
	l.add("responder_resources", c.u8())
	c.take(3) // EE context
	l.add("initiator_depth", c.u8())
	c.take(3)
	flags := c.u8()
	l.add("transport", transports[flags>>1&3])
	l.add("psn", c.u24())
	l.add("retry_count", c.u8()&7)
	l.add("pkey", Hex(c.u16()))
	flags = c.u8()
	mtu := "code " + fmt.Sprint(flags>>4)
	if code := flags >> 4; code >= 1 && code <= 5 {
		mtu = fmt.Sprint(128 << code)
	}
	l.add("path_mtu", mtu)
	l.add("rnr_retry", flags&7)
	flags = c.u8()
	l.add("cm_retries", flags>>4)
	l.flag("srq", flags&8 != 0)
	c.take(4) // LIDs
	l.add("local_gid", gid(c))
	l.add("remote_gid", gid(c))
	c.take(5)
	l.add("hop_limit", c.u8())
	c.take(2)
	c.take(44) // the alternate path
	readCMA(l, c, service)
}

// gid reads a GID. One that holds an IPv4 address is printed as that address.
func gid(c *cursor) string { return netip.AddrFrom16([16]byte(c.take(16))).Unmap().String() }

// portSpaces are those of rdma_cm, whose service IDs hold a port space and a port.
var portSpaces = map[uint64]string{0x106: "TCP", 0x111: "UDP", 0x13f: "IB"}

func isCMA(service uint64) bool { return service>>24 == 1 }

func addService(l *Layer, service uint64) {
	if !isCMA(service) {
		return
	}
	space := service >> 16
	if name, ok := portSpaces[space]; ok {
		l.add("port_space", name)
	} else {
		l.add("port_space", Hex(space))
	}
	l.add("port", service&0xffff)
}

// readCMA reads the header that rdma_cm puts in front of the private data of a
// request.
func readCMA(l *Layer, c *cursor, service uint64) {
	if !isCMA(service) || c.short || len(c.b) < 36 || c.b[0] != 0 {
		return
	}
	c.take(1)
	version := c.u8() >> 4
	l.add("src_port", c.u16())
	for _, name := range []string{"src_ip", "dst_ip"} {
		address := c.take(16)
		if version == 4 {
			address = address[12:]
		}
		ip, _ := netip.AddrFromSlice(address)
		l.add(name, ip.String())
	}
}

func readREP(l *Layer, c *cursor) {
	readIDs(l, c)
	l.add("qkey", Hex(c.u32()))
	l.add("qpn", Hex(c.u24()))
	c.take(5)
	l.add("psn", c.u24())
	c.take(1)
	l.add("responder_resources", c.u8())
	l.add("initiator_depth", c.u8())
	c.take(1)
	flags := c.u8()
	l.add("rnr_retry", flags>>5)
	l.flag("srq", flags&0x10 != 0)
	l.add("ca_guid", Hex(c.u64()))
}

func readDREQ(l *Layer, c *cursor) {
	readIDs(l, c)
	l.add("remote_qpn", Hex(c.u24()))
}

var answered = [4]string{"REQ", "REP", "LAP", "no message"}

func readMRA(l *Layer, c *cursor) {
	readIDs(l, c)
	l.add("of", answered[c.u8()>>6])
	l.add("service_timeout", c.u8()>>3)
}

// rejections are the reasons of REJ (IBA specification, volume 1, 12.6.7.2).
var rejections = map[uint64]string{
	1: "no QP", 2: "no EE context", 3: "no resources", 4: "timeout", 5: "unsupported request", 6: "invalid communication id",
	7: "invalid communication instance", 8: "invalid service id", 9: "invalid transport service type", 10: "stale connection",
	12: "invalid path: GID", 13: "invalid path: LID", 14: "invalid path: SL", 15: "invalid path: traffic class", 16: "invalid path: hop limit",
	17: "invalid path: rate", 24: "redirect", 26: "path MTU", 27: "resources", 28: "consumer", 30: "duplicate connection",
}

func readREJ(l *Layer, c *cursor) {
	readIDs(l, c)
	of := c.u8() >> 6
	l.add("of", answered[of])
	c.take(1)
	reason := c.u16()
	l.add("reason", reason)
	if about, ok := rejections[reason]; ok {
		l.add("why", about)
	}
}

func readSIDRREQ(l *Layer, c *cursor) {
	l.add("request_id", Hex(c.u32()))
	l.add("pkey", Hex(c.u16()))
	c.take(2)
	service := c.u64()
	l.add("service_id", Hex(service))
	addService(l, service)
	readCMA(l, c, service)
}

var resolutions = []string{"valid", "service id not supported", "rejected by the service", "no QP", "redirect", "unsupported version"}

func readSIDRREP(l *Layer, c *cursor) {
	l.add("request_id", Hex(c.u32()))
	status := c.u8()
	about := fmt.Sprintf("status %d", status)
	if status < uint64(len(resolutions)) {
		about = resolutions[status]
	}
	l.add("status", about)
	c.take(3)
	l.add("qpn", Hex(c.u24()))
	c.take(1)
	l.add("service_id", Hex(c.u64()))
	l.add("qkey", Hex(c.u32()))
}
