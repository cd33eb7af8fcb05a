package rdmacm

// ListenerStats counts what a Listener has done since it began to listen. The Listeners of packages
// rsocket, msg and valkeyrdma return it too.
type ListenerStats struct {
	// Waiting is how many requests wait now, and Handshakes how many handshakes are under way or have
	// a connection that Accept has not returned.
	Waiting, Handshakes int

	Requests uint64 // connect requests that arrived, including those that failed at once
	Taken    uint64 // requests that Next returned
	Accepted uint64 // connections that Accept returned
	Busy     uint64 // requests that were rejected because Backlog of them waited
	Evicted  uint64 // handshakes that gave their place to another peer
	Expired  uint64 // handshakes whose peer did not confirm within ConfirmTimeout or AcceptTimeout
	Failed   uint64 // handshakes that failed, also by Config.Prepare, each of which was an error of Accept
}

// Stats returns the Listener's counts. It takes a lock for a moment, and may be called after Close.
func (l *Listener) Stats() ListenerStats {
	b := l.backlog
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Waiting, s.Handshakes = len(b.requests), len(b.handshakes)
	return s
}
