package fakefabric

import "github.com/goverbs/goverbs/internal/fakeverbs"

// join connects two queue pairs.
func (f *Fabric) join(a, b uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.peers[a], f.peers[b] = b, a
	if f.iwarp {
		f.each(a, b, (*fakeverbs.QP).Connect)
	}
}

// part ends that. On iWARP the kernel flushes both.
func (f *Fabric) part(a, b uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.peers[a] == b {
		delete(f.peers, a)
		delete(f.peers, b)
	}
	if f.iwarp {
		f.each(a, b, (*fakeverbs.QP).Break)
	}
}

func (f *Fabric) each(a, b uint32, do func(*fakeverbs.QP)) {
	for _, qpn := range []uint32{a, b} {
		if _, qp := f.find(qpn); qp != nil {
			do(qp)
		}
	}
}

// find finds a queue pair by its number.
func (f *Fabric) find(qpn uint32) (*device, *fakeverbs.QP) {
	for _, d := range f.devices {
		for _, qp := range d.QueuePairs() {
			if qp.Num == qpn {
				return d, qp
			}
		}
	}
	return nil, nil
}
