// Package decode decodes RDMA packets: RoCE v2 with the messages of its connection
// manager, and iWARP. Its input is untrusted: it is validated before use, and never
// causes a panic.
package decode

import (
	"encoding/binary"
	"net/netip"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
)

// Message is a packet of RoCE, or a frame of iWARP, of which a TCP segment may end
// several.
type Message struct {
	Src, Dst netip.AddrPort
	Layers   []Layer
}

// Layer is a header, or the data after the last header.
type Layer struct {
	Name   string
	Fields table.Table
}

func (l *Layer) add(name string, value any) { l.Fields.Add(name, value) }

// flag adds a bit that is set.
func (l *Layer) flag(name string, set bool) {
	if set {
		l.add(name, true)
	}
}

// Hex is a number that text shows in base 16.
type Hex uint64

// Field returns the value of a field, or nil. Tests use it.
func (m *Message) Field(layer, name string) any {
	for _, l := range m.Layers {
		for _, f := range l.Fields {
			if l.Name == layer && f.Key == name {
				return f.Value
			}
		}
	}
	return nil
}

// damaged returns the layer for truncated or malformed data.
func damaged(about string) Layer {
	l := Layer{Name: "damaged"}
	l.add("why", about)
	return l
}

// cursor reads numbers of the network's byte order. Behind the end everything is 0 and
// short is set.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.short, c.b = true, nil
		return make([]byte, max(n, 0))
	}
	head := c.b[:n]
	c.b = c.b[n:]
	return head
}

func (c *cursor) u8() uint64  { return uint64(c.take(1)[0]) }
func (c *cursor) u16() uint64 { return uint64(binary.BigEndian.Uint16(c.take(2))) }
func (c *cursor) u24() uint64 { return c.u8()<<16 | c.u16() }
func (c *cursor) u32() uint64 { return uint64(binary.BigEndian.Uint32(c.take(4))) }
func (c *cursor) u64() uint64 { return binary.BigEndian.Uint64(c.take(8)) }
