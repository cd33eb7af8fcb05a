package decode

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
)

// Limits for fragments, whose content is untrusted.
const (
	mostDatagrams = 256 // incomplete at a time; the oldest is dropped first
	mostPieces    = 256 // of a datagram
	mostDatagram  = 1<<16 - 1
)

type datagramKey struct {
	src, dst netip.Addr
	id       uint32
	proto    byte
}

// partial is a datagram of which fragments are missing.
type partial struct {
	key    datagramKey
	first  datagram // without its body; head is nil until the first fragment came
	pieces []piece  // in order, without overlaps
	size   int      // -1 until the last fragment came
	taken  int      // fragments
}

type piece struct {
	at   int
	data []byte
}

// reassemble adds a fragment, and returns the datagram if it is complete.
func (d *Decoder) reassemble(p datagram) (whole datagram, ok bool) {
	const lost = "IP fragments of incomplete datagrams"
	end := p.fragment.at + len(p.body)
	if len(p.body) < p.size || end > mostDatagram || len(p.body) == 0 || p.fragment.more && len(p.body)%8 != 0 {
		d.skip(lost)
		return whole, false
	}
	key := datagramKey{p.src, p.dst, p.fragment.id, p.proto}
	i := slices.IndexFunc(d.partial, func(one *partial) bool { return one.key == key })
	if i < 0 {
		if len(d.partial) == mostDatagrams {
			d.skipMany(lost, d.partial[0].taken)
			d.partial = slices.Delete(d.partial, 0, 1)
		}
		i = len(d.partial)
		d.partial = append(d.partial, &partial{key: key, size: -1})
	}
	one := d.partial[i]
	one.taken++
	if p.fragment.at == 0 && one.first.head == nil {
		one.first, one.first.head, one.first.body = p, slices.Clone(p.head), nil
	}
	if !p.fragment.more {
		one.size = end
	}
	one.put(p.fragment.at, p.body)
	switch {
	case len(one.pieces) > mostPieces:
		d.skipMany(lost, one.taken)
	case !one.complete():
		return whole, false
	default:
		whole, ok = one.whole(), true
	}
	d.partial = slices.Delete(d.partial, i, i+1)
	return whole, ok
}

// put adds a piece. Of pieces that overlap, the one that came first counts.
func (one *partial) put(at int, data []byte) {
	i, _ := slices.BinarySearchFunc(one.pieces, at, func(p piece, at int) int { return cmp.Compare(p.at, at) })
	if i > 0 {
		seen := one.pieces[i-1].at + len(one.pieces[i-1].data) - at
		if seen >= len(data) {
			return
		}
		at, data = at+max(seen, 0), data[max(seen, 0):]
	}
	if i < len(one.pieces) {
		if data = data[:min(len(data), max(one.pieces[i].at-at, 0))]; len(data) == 0 {
			return
		}
	}
	one.pieces = slices.Insert(one.pieces, i, piece{at, slices.Clone(data)})
}

func (one *partial) complete() bool {
	next := 0
	for _, p := range one.pieces {
		if p.at != next {
			return false
		}
		next += len(p.data)
	}
	return one.size >= 0 && next >= one.size && one.first.head != nil
}

// whole returns the datagram, with the header that it had before it was cut into fragments.
func (one *partial) whole() datagram {
	d := one.first
	for _, p := range one.pieces {
		d.body = append(d.body, p.data...)
	}
	d.body = d.body[:one.size]
	d.size, d.fragment = one.size, fragment{}
	if d.head[0]>>4 == 4 {
		binary.BigEndian.PutUint16(d.head[2:], uint16(len(d.head)+d.size))
		d.head[6], d.head[7] = d.head[6]&^0x3f, 0
	} else {
		binary.BigEndian.PutUint16(d.head[4:], uint16(d.size))
		d.head[6] = d.proto
	}
	return d
}
