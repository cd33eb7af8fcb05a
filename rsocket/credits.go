package rsocket

// window is how many messages of data may be sent. Limit and count have 16 bits and
// wrap.
type window struct {
	most  uint16 // credits that the peer gave in its hello
	spare uint16 // credits that are left unused
	seq   uint16 // messages sent
	limit uint16 // as many may be sent
}

// iwarpSpare leaves entries of the peer's receive queue to words without data. The
// queue of librdmacm has as many entries as it gives credits, and is refilled only when
// its program polls. On iWARP a word that finds it empty ends the connection; elsewhere
// it is sent again.
const iwarpSpare = 8

func newWindow(credits uint16, iwarp bool) window {
	w := window{most: credits, limit: credits}
	if iwarp {
		w.spare = min(iwarpSpare, credits/2)
	}
	return w
}

func (w *window) open() bool { return w.limit-w.seq > w.spare }

// raise takes a new limit, which may not be below the last one nor leave the peer more
// to receive than it has receives for.
func (w *window) raise(limit uint16) error {
	left := limit - w.seq
	if left > w.most || left < w.limit-w.seq {
		return violation("credit limit %d after %d, with %d messages sent and %d credits", limit, w.limit, w.seq, w.most)
	}
	w.limit = limit
	return nil
}
