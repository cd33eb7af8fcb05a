package rdmacm

import "sync"

// dialHub is the hub of the connections that were dialled, while there are any:
// a descriptor and a goroutine for each would be most of what an idle one takes.
// The network namespace of an ID is that of the thread which makes it, not of the
// thread which opened the channel.
var dialHub sharedHub

type sharedHub struct {
	mu  sync.Mutex
	hub *hub
}

// join returns the hub, held for the caller, who releases it.
func (s *sharedHub) join() (*hub, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hub != nil && s.hub.join() {
		return s.hub, nil
	}
	h, err := newHub()
	if err == nil {
		s.hub = h
	}
	return h, err
}

func (s *sharedHub) forget(h *hub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hub == h {
		s.hub = nil
	}
}

// join is hold for who does not know whether the hub still runs.
func (h *hub) join() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refs == 0 || h.failed != nil {
		return false
	}
	h.refs++
	return true
}
