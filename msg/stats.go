package msg

import (
	"time"

	"github.com/goverbs/goverbs/rdmacm"
)

// Stats returns the connection's counts. It takes locks for a moment, and may be called after Close.
func (c *Conn) Stats() rdmacm.ConnStats {
	registered := c.heap.bytes()
	c.mu.Lock()
	defer c.mu.Unlock()
	var s rdmacm.ConnStats
	s.Add(&c.stats)
	s.MessagesSent, s.MessagesReceived, s.MessagesHeld, s.RegisteredBytes = c.sent, c.got, c.held, registered
	if c.shape.pool == nil {
		s.Wakeups = c.poller.wakeups.Load()
	}
	return s
}

// waitedForRoom counts a wait for the peer's credit.
func (c *Conn) waitedForRoom(start time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.RoomWaits++
	c.stats.RoomWait += time.Since(start)
}

// bytes returns how many bytes are registered.
func (h *heap) bytes() (n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, size := range h.all {
		n += uint64(size)
	}
	return n
}

// PoolStats counts what the connections of a [Pool] have done.
type PoolStats struct {
	Conns int // open now, or being closed

	// ConnStats has the sums of all connections, including those that have been closed, but for MessagesHeld.
	// RegisteredBytes includes the regions of the pool.
	rdmacm.ConnStats
}

// Stats returns the pool's counts. It takes the lock of each connection for a moment.
func (p *Pool) Stats() PoolStats {
	var s PoolStats
	p.mu.RLock()
	s.Conns = len(p.conns)
	s.Add(&p.left)
	conns := make([]*Conn, 0, len(p.conns))
	for _, c := range p.conns {
		conns = append(conns, c)
	}
	p.mu.RUnlock()
	for _, c := range conns {
		one := c.Stats()
		s.Add(&one)
	}
	for _, pair := range p.pairs {
		s.Wakeups += pair.poller.wakeups.Load()
	}
	s.RegisteredBytes += p.heap.bytes()
	return s
}
