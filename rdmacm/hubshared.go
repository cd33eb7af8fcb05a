package rdmacm

import (
	"sync"

	"github.com/goverbs/goverbs/internal/kernel"
)

// dialHubs are the hubs of the connections that were dialled, one a kernel, while
// there are any: a descriptor and a goroutine for each would be most of what an idle
// one takes.
// The network namespace of an ID is that of the thread which makes it, not of the
// thread which opened the channel.
var dialHubs = sharedHubs{hubs: make(map[kernel.Kernel]*hub)}

type sharedHubs struct {
	mu   sync.Mutex
	hubs map[kernel.Kernel]*hub
}

// join returns the hub of a kernel and takes a reference, which the caller releases.
func (s *sharedHubs) join(k kernel.Kernel) (*hub, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hubs[k]; h != nil && h.join() {
		return h, nil
	}
	h, err := newHub(k)
	if err == nil {
		s.hubs[k] = h
	}
	return h, err
}

func (s *sharedHubs) forget(h *hub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hubs[h.kernel] == h {
		delete(s.hubs, h.kernel)
	}
}

// join is hold for a caller that does not know whether the hub still runs.
func (h *hub) join() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refs == 0 || h.failed != nil {
		return false
	}
	h.refs++
	return true
}
