package decode

import (
	"encoding/hex"
	"fmt"
)

// rdmapOps are the operations of RDMAP (RFC 5040, 4.3; RFC 7306, 4).
var rdmapOps = map[byte]string{
	0: "Write", 1: "Read Request", 2: "Read Response", 3: "Send", 4: "Send with Invalidate", 5: "Send with Solicited Event",
	6: "Send with Solicited Event and Invalidate", 7: "Terminate", 8: "Immediate Data", 9: "Immediate Data with Solicited Event",
	10: "Atomic Request", 11: "Atomic Response",
}

// Operations with more than DDP's header.
const (
	opReadRequest    = 1
	opSendInv        = 4
	opSendSEInv      = 6
	opTerminate      = 7
	opAtomicRequest  = 10
	opAtomicResponse = 11
)

// ddp reads a DDP segment (RFC 5041, 4) and RDMAP's part of its header.
func ddp(b []byte) []Layer {
	if len(b) == 0 { // siw and others open a connection with an empty frame
		return nil
	}
	c := cursor{b: b}
	control, rdmap := byte(c.u8()), byte(c.u8())
	op := rdmap & 15
	tagged := control&0x80 != 0
	d := Layer{Name: "DDP"}
	d.add("tagged", tagged)
	d.flag("last", control&0x40 != 0)
	d.add("version", uint64(control&3))
	r := Layer{Name: "RDMAP"}
	name, ok := rdmapOps[op]
	if !ok {
		name = fmt.Sprintf("opcode %d", op)
	}
	r.add("operation", name)
	r.add("opcode", uint64(op))
	r.add("version", uint64(rdmap>>6))
	if tagged {
		d.add("stag", Hex(c.u32()))
		d.add("to", Hex(c.u64()))
	} else {
		if stag := c.u32(); op == opSendInv || op == opSendSEInv {
			r.add("invalidate_stag", Hex(stag))
		}
		d.add("qn", c.u32())
		d.add("msn", c.u32())
		d.add("mo", c.u32())
		untagged(&r, &c, op)
	}
	if c.short {
		return []Layer{d, r, damaged("the segment ends within its headers")}
	}
	p := Layer{Name: "payload"}
	p.add("length", len(c.b))
	return []Layer{d, r, p}
}

// untagged reads the headers that some operations carry in the place of data.
func untagged(r *Layer, c *cursor, op byte) {
	switch op {
	case opReadRequest:
		r.add("sink_stag", Hex(c.u32()))
		r.add("sink_to", Hex(c.u64()))
		r.add("size", c.u32())
		r.add("source_stag", Hex(c.u32()))
		r.add("source_to", Hex(c.u64()))
	case opTerminate:
		v := c.u32()
		r.add("layer", [...]string{"RDMAP", "DDP", "MPA"}[min(v>>28, 2)])
		r.add("error_type", v>>24&15)
		r.add("error_code", Hex(v>>16&255))
	case opAtomicRequest:
		r.add("atomic", [...]string{"FetchAdd", "CmpSwap", "reserved"}[min(c.u32()>>28, 2)])
		r.add("request_id", c.u32())
		r.add("stag", Hex(c.u32()))
		r.add("to", Hex(c.u64()))
	case opAtomicResponse:
		r.add("request_id", c.u32())
		r.add("original", c.u64())
	}
}

// bytesOf formats private data.
func bytesOf(b []byte) string { return hex.EncodeToString(b) }
