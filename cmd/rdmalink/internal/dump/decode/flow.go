package decode

import (
	"encoding/binary"
	"net/netip"
)

type flowKey struct{ src, dst netip.AddrPort }

// Bounds of what strangers make us keep.
const (
	mostFlows   = 4096
	mostWaiting = 1 << 20 // bytes of segments that came early, of one flow
)

// flow is one direction of a TCP connection. Its bytes count from where an MPA frame
// began; before that nothing is known of them, and they are left out.
type flow struct {
	lost    string            // why its frames can't be told from here on
	next    uint32            // the sequence number that the next byte has
	buf     []byte            // bytes in order, of a frame that is not complete
	early   map[uint32][]byte // segments behind a gap, by sequence number
	waiting int               // bytes of these
	mpa
}

// tcp reads a segment and gives the frames that it ends.
func (d *Decoder) tcp(p datagram) []Message {
	c := cursor{b: p.body}
	from, to, seq := c.u16(), c.u16(), uint32(c.u32())
	c.take(4)
	head, flags := int(c.u8()>>4)*4, c.u8()
	if c.short || head < 20 || head > len(p.body) {
		return nil
	}
	key := flowKey{netip.AddrPortFrom(p.src, uint16(from)), netip.AddrPortFrom(p.dst, uint16(to))}
	data := p.body[head:]
	f := d.flows[key]
	const fin, syn, rst = 1, 2, 4
	if flags&(syn|rst) != 0 {
		delete(d.flows, key)
		return nil
	}
	if f == nil {
		if !beginsMPA(data) || len(d.flows) >= mostFlows {
			return nil
		}
		f = &flow{next: seq}
		d.flows[key] = f
	}
	f.put(seq, data)
	if len(data) < p.size-head { // the end of the segment was not captured
		f.lost = "a segment was captured in part"
	}
	back := d.flows[flowKey{key.dst, key.src}]
	var all []Message
	for f.lost == "" {
		layers, used := f.frame(back)
		if used == 0 {
			break
		}
		f.buf = f.buf[used:]
		all = append(all, Message{key.src, key.dst, layers})
	}
	if f.lost != "" {
		all = append(all, Message{key.src, key.dst, []Layer{damaged(f.lost)}})
	}
	if flags&fin != 0 || f.lost != "" {
		delete(d.flows, key)
	}
	return all
}

// put takes the bytes that are new, and those behind them that came before.
func (f *flow) put(seq uint32, data []byte) {
	if ahead := int32(seq - f.next); ahead > 0 {
		f.keep(seq, data)
		return
	}
	f.appendAt(seq, data)
	for again := true; again; {
		again = false
		for at, segment := range f.early {
			if int32(at-f.next) <= 0 {
				delete(f.early, at)
				f.waiting -= len(segment)
				f.appendAt(at, segment)
				again = true
			}
		}
	}
}

// appendAt appends the part that has not been seen.
func (f *flow) appendAt(seq uint32, data []byte) {
	seen := int64(f.next - seq)
	if seen >= int64(len(data)) {
		return
	}
	f.buf = append(f.buf, data[seen:]...)
	f.next += uint32(int64(len(data)) - seen)
}

// keep holds a segment for later. A gap that is not filled soon is a packet that was
// not captured.
func (f *flow) keep(seq uint32, data []byte) {
	if _, had := f.early[seq]; had || len(data) == 0 {
		return
	}
	if f.waiting += len(data); f.waiting > mostWaiting {
		f.lost = "segments are missing in the capture"
		return
	}
	if f.early == nil {
		f.early = make(map[uint32][]byte)
	}
	f.early[seq] = append([]byte(nil), data...)
}

func be16(b []byte) int { return int(binary.BigEndian.Uint16(b)) }
