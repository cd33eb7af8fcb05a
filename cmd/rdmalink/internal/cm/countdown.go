package cm

import "sync/atomic"

// countdown signals when the last of a number of operations is done.
type countdown struct {
	left atomic.Int64
	zero chan struct{} // closed then
}

func newCountdown(n int) *countdown {
	c := &countdown{zero: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

func (c *countdown) down() {
	if c.left.Add(-1) == 0 {
		close(c.zero)
	}
}
