package msg

import "encoding/binary"

// rts is what follows the header of an RTS: where a large message lies.
type rts struct {
	addr   uint64
	length uint64
	rkey   uint32
}

const rtsSize = 24

func (r rts) put(b []byte) {
	binary.LittleEndian.PutUint64(b, r.addr)
	binary.LittleEndian.PutUint64(b[8:], r.length)
	binary.LittleEndian.PutUint32(b[16:], r.rkey)
	binary.LittleEndian.PutUint32(b[20:], 0)
}

// parseRTS reads the payload of an RTS, of rtsSize bytes. A message longer than most
// is refused.
func parseRTS(b []byte, most int) (rts, error) {
	r := rts{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[16:])}
	switch {
	case r.length == 0 || r.length > uint64(most):
		return r, violation("RTS of %d bytes, at most %d are allowed", r.length, most)
	case r.addr+r.length < r.addr:
		return r, violation("RTS of %d bytes at %#x", r.length, r.addr)
	case binary.LittleEndian.Uint32(b[20:]) != 0:
		return r, violation("RTS with reserved bits")
	}
	return r, nil
}
