package record

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// field is a field of a call's private bytes: its name with a mask in front, and its size.
type field struct {
	name string
	size int
}

// callLine decodes the private bytes of a call. It is nothing for a call without any.
func callLine(c *fakeverbs.Crossing, calls map[string][]field) (*line, bool) {
	if len(c.Bytes) == 0 {
		return nil, false
	}
	l := &line{stream: "calls", kind: c.Call + " " + string(c.Kind)}
	b := c.Bytes
	for _, f := range calls[l.kind] {
		if len(b) < f.size {
			break
		}
		v := little(b[:f.size])
		b = b[f.size:]
		switch mask, name := f.name[0], f.name[1:]; {
		case mask == '@' && v != 0:
			l.addr(name, v)
		case mask == '@':
			l.num(name, 0)
		case mask == '#':
			l.key(name, uint32(v))
		case mask == '%': // a number of an object's
			l.add(name, fmt.Sprintf("%%%c%d", name[0], v))
		default:
			l.num(f.name, v)
		}
	}
	if strings.Trim(string(b), "\x00") != "" {
		l.add("more", fmt.Sprintf("%x", b))
	}
	l.kind = strings.ReplaceAll(l.kind, " ", ".")
	return l, true
}

// little is a number of up to 8 bytes.
func little(b []byte) uint64 {
	var word [8]byte
	copy(word[:], b)
	return binary.LittleEndian.Uint64(word[:])
}
