package rsocket

// sendRing keeps account of the send buffer: bytes are taken in order and come back
// in order.
type sendRing struct {
	size, used, next int
}

// piece is a part of the send buffer.
type piece struct{ off, n int }

func (r *sendRing) free() int { return r.size - r.used }

// take takes n bytes, of which there are enough, in one piece or two.
func (r *sendRing) take(n int) [2]piece {
	first := min(n, r.size-r.next)
	pieces := [2]piece{{r.next, first}, {0, n - first}}
	r.used += n
	r.next = (r.next + n) % r.size
	return pieces
}

// give returns the n oldest bytes.
func (r *sendRing) give(n int) { r.used -= n }
