package cli

import (
	"fmt"
	"net/netip"
	"sync"
)

// Places limits how many clients a server serves at a time. An address gets no further place once it has more
// places than are left. So clients of one address, which may do nothing, can't shut out those of another.
type Places struct {
	taken chan struct{} // holds a token for each place that is taken

	mu   sync.Mutex
	held map[netip.Addr]int // places by address
}

// NewPlaces returns most places.
func NewPlaces(most int) *Places {
	return &Places{taken: make(chan struct{}, most), held: make(map[netip.Addr]int)}
}

// Take reserves a place for a client. It returns an error if all places, or the client's share of them, are taken.
func (p *Places) Take(from netip.Addr) error {
	select {
	case p.taken <- struct{}{}:
		return p.assign(from)
	default:
		return fmt.Errorf("already serving %d clients, the limit", cap(p.taken))
	}
}

// assign gives a client a place whose token the caller has put into taken. On failure it takes the token back.
func (p *Places) assign(from netip.Addr) error {
	from = from.Unmap()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.held[from]; n > cap(p.taken)-len(p.taken)+1 {
		<-p.taken
		return fmt.Errorf("already serving %d clients of this address, its share of %d", n, cap(p.taken))
	}
	p.held[from]++
	return nil
}

// Leave releases a place that Take reserved.
func (p *Places) Leave(from netip.Addr) {
	from = from.Unmap()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[from]--; p.held[from] == 0 {
		delete(p.held, from)
	}
	<-p.taken
}
