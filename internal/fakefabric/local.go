package fakefabric

import "fmt"

// span is local memory that a work request names.
type span struct {
	addr   uint64
	length uint32
	key    uint32
}

// pieces is the memory of a work request.
type pieces [][]byte

// scatter fills the memory and says how many bytes it had room for.
func (p pieces) scatter(b []byte) (n int) {
	for _, m := range p {
		n += copy(m, b[n:])
	}
	return n
}

func (p pieces) gather() (b []byte) {
	for _, m := range p {
		b = append(b, m...)
	}
	return b
}

func (p pieces) size() (n int) {
	for _, m := range p {
		n += len(m)
	}
	return n
}

// local finds what spans name. The keys must be of regions that hold them.
func (d *device) local(spans []span) (p pieces) {
	for _, s := range spans {
		if s.length == 0 {
			continue
		}
		if !d.isOurs(s) {
			d.f.t.Errorf("a work request names %d bytes at %#x with key %#x, which are no region's", s.length, s.addr, s.key)
			continue
		}
		p = append(p, d.at(s.addr, s.length))
	}
	return p
}

func (d *device) isOurs(s span) bool {
	for _, mr := range d.MRs() {
		if mr.Key == s.key && s.addr >= mr.Start && s.addr-mr.Start+uint64(s.length) <= mr.Length {
			return true
		}
	}
	return false
}

// at finds lent memory.
func (d *device) at(addr uint64, n uint32) []byte {
	for start, b := range d.lent {
		if off := addr - start; addr >= start && off+uint64(n) <= uint64(len(b)) {
			return b[off:][:n]
		}
	}
	panic(fmt.Sprintf("%d bytes at %#x were not lent", n, addr))
}
