package msg

// wrid names a work request: the connection, so that a late completion of a closed one
// finds nobody, what it is for, its slot, and how often the slot was used before.
type wrid uint64

type wrKind uint8

const (
	kindRecv    wrKind = iota // slot: the receive
	kindData                  // slot: the buffer sent from
	kindQuiet                 // the same, but it completes only when it fails
	kindControl               // a frame without a buffer
	kindRead                  // of a large message
	kindOp                    // slot: the op
	kindKeepAlive
)

func newWRID(conn uint32, kind wrKind, gen uint16, slot int) wrid {
	return wrid(conn)<<32 | wrid(kind)<<28 | wrid(gen&0xfff)<<16 | wrid(uint16(slot))
}

func (w wrid) conn() uint32 { return uint32(w >> 32) }
func (w wrid) kind() wrKind { return wrKind(w >> 28 & 0xf) }
func (w wrid) gen() uint16  { return uint16(w >> 16 & 0xfff) }
func (w wrid) slot() int    { return int(uint16(w)) }
