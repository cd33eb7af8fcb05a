package decode

import "encoding/binary"

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
