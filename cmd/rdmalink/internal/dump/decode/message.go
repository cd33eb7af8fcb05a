// Package decode reads RDMA off the wire: RoCE v2 with the messages of its connection
// manager, and iWARP. Its input is what strangers sent: it is checked before it is used,
// and nothing panics on it.
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

// Layer is one header, or what stands behind them all.
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

// Field finds a value, nil if there is none. Tests use it.
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

// damaged is the layer of what ends before it should, or does not make sense.
func damaged(about string) Layer {
	l := Layer{Name: "damaged"}
	l.add("why", about)
	return l
}
