package netlinkrdma

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

const (
	attrHeader = 4 // nla_len, nla_type: two u16
	// attrTypeMask strips NLA_F_NESTED and NLA_F_NET_BYTEORDER: whether the
	// kernel sets them differs from attribute to attribute.
	attrTypeMask = 0x3fff
	flagNested   = 0x8000 // NLA_F_NESTED
)

// attributes walks the attributes of one reply. The first fault sticks: next
// then returns false, getters return zero values, and err says what was wrong
// with which attribute. Attributes nobody asks for are skipped.
type attributes struct {
	rest  []byte
	typ   uint16
	value []byte
	err   error
}

// next moves on to the next attribute that is not padding.
func (a *attributes) next() bool {
	for a.err == nil && len(a.rest) > 0 {
		if !a.advance() {
			return false
		}
		if a.typ != abi.RDMA_NLDEV_ATTR_PAD {
			return true
		}
	}
	return false
}

func (a *attributes) advance() bool {
	if len(a.rest) < attrHeader {
		a.err = fmt.Errorf("%w: %d bytes where an attribute should start", ErrMalformed, len(a.rest))
		return false
	}
	length := int(binary.NativeEndian.Uint16(a.rest))
	a.typ = binary.NativeEndian.Uint16(a.rest[2:]) & attrTypeMask
	if length < attrHeader || length > len(a.rest) {
		a.err = fmt.Errorf("%w: attribute %s says it has %d bytes, of %d left", ErrMalformed, attrName(a.typ), length, len(a.rest))
		return false
	}
	a.value = a.rest[attrHeader:length]
	a.rest = a.rest[min((length+3)&^3, len(a.rest)):]
	return true
}

// sized returns the value when it is n bytes long, and faults otherwise.
func (a *attributes) sized(n int) []byte {
	if a.err == nil && len(a.value) != n {
		a.err = fmt.Errorf("%w: attribute %s has %d bytes, want %d", ErrMalformed, attrName(a.typ), len(a.value), n)
	}
	if a.err != nil {
		return make([]byte, n)
	}
	return a.value
}

func (a *attributes) uint8() uint8   { return a.sized(1)[0] }
func (a *attributes) uint32() uint32 { return binary.NativeEndian.Uint32(a.sized(4)) }
func (a *attributes) uint64() uint64 { return binary.NativeEndian.Uint64(a.sized(8)) }

// string returns the value up to its NUL, which may be absent.
func (a *attributes) string() string {
	s, _, _ := bytes.Cut(a.value, []byte{0})
	return string(s)
}

// nested lets f read the attributes inside this one.
func (a *attributes) nested(f func(in *attributes)) {
	in := attributes{rest: a.value}
	f(&in)
	if a.err == nil && in.err != nil {
		a.err = fmt.Errorf("in %s: %w", attrName(a.typ), in.err)
	}
}

// inside reads the attributes within this one; adopt ends that. Unlike nested
// they cost no allocation.
func (a *attributes) inside() attributes { return attributes{rest: a.value} }

// adopt takes over the fault of what was read inside, and tells whether there
// is none.
func (a *attributes) adopt(in *attributes) bool {
	if a.err == nil && in.err != nil {
		a.err = fmt.Errorf("in %s: %w", attrName(a.typ), in.err)
	}
	return a.err == nil
}

// require faults unless ok: the reply lacks an attribute it must have.
func (a *attributes) require(ok bool, typ uint16) {
	if a.err == nil && !ok {
		a.err = fmt.Errorf("%w: no attribute %s", ErrMalformed, attrName(typ))
	}
}

func uint32Value(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
func stringValue(s string) []byte { return append([]byte(s), 0) }

func boolValue(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}

// nestedAttr is an attribute that has others inside. Where the kernel changes
// things it wants NLA_F_NESTED.
func nestedAttr(typ uint16, in ...Attr) Attr {
	var value []byte
	for _, a := range in {
		value = a.append(value)
	}
	return Attr{flagNested | typ, value}
}

// append lays the attribute out behind b.
func (a Attr) append(b []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(attrHeader+len(a.Value)))
	b = binary.NativeEndian.AppendUint16(b, a.Type)
	b = append(b, a.Value...)
	return append(b, make([]byte, -len(a.Value)&3)...)
}
