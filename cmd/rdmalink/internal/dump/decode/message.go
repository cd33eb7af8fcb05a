// Package decode decodes RDMA packets: RoCE v2 with the messages of its connection
// manager, and iWARP. Its input is untrusted: it is validated before use, and never
// causes a panic.
package decode

import (
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
