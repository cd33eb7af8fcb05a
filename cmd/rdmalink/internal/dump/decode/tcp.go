package decode

import (
	"bytes"
	"cmp"
	"container/list"
	"net/netip"
	"slices"
)

type flowKey struct{ src, dst netip.AddrPort }

// Limits for the state of connections, whose content is untrusted.
const (
	mostFlows   = 4096
	mostHeld    = 64 << 20 // bytes, of all flows
	mostWaiting = 1 << 20  // bytes of segments that came early, of one flow
	segmentCost = 64       // bytes that a segment takes beside its data
)

// early is a segment behind a gap.
type early struct {
	seq  uint32
	data []byte
}

// flow is one direction of a TCP connection. Its bytes count from where an MPA frame
// began; before that nothing is known of them, and they are left out.
type flow struct {
	key     flowKey
	place   *list.Element // among the recent ones
	held    int           // its part of Decoder.held
	lost    string        // the reason why frames can't be found from here on
	other   bool          // the connection is not iWARP
	ends    bool          // the FIN has come
	end     uint32        // the sequence number of the FIN
	next    uint32        // the sequence number that the next byte has
	buf     []byte        // bytes in order, of a frame that is not complete
	early   []early       // in the order of their numbers
	waiting int           // bytes of these
	mpa
}

// tcp reads a segment and gives the frames that it ends.
func (d *Decoder) tcp(p datagram) []Message {
	c := cursor{b: p.body}
	from, to, seq := c.u16(), c.u16(), uint32(c.u32())
	c.take(4)
	head, flags := int(c.u8()>>4)*4, c.u8()
	if c.short || head < 20 || head > len(p.body) {
		d.skip("damaged or truncated TCP headers")
		return nil
	}
	key := flowKey{netip.AddrPortFrom(p.src, uint16(from)), netip.AddrPortFrom(p.dst, uint16(to))}
	data := p.body[head:]
	f := d.flows[key]
	const fin, syn, rst = 1, 2, 4
	if flags&(syn|rst) != 0 {
		return d.cutOff(f)
	}
	back := d.flows[flowKey{key.dst, key.src}]
	if back != nil {
		d.recent.MoveToFront(back.place)
	}
	switch {
	case f != nil:
		d.recent.MoveToFront(f.place)
	case !beginsMPA(data):
		if len(data) > 0 {
			d.skip("TCP of no iWARP connection whose beginning was captured")
		}
		return nil
	default:
		f = &flow{key: key, next: seq}
		f.place = d.recent.PushFront(f)
		d.flows[key] = f
	}
	f.put(seq, data)
	if flags&fin != 0 {
		f.ends, f.end = true, seq+uint32(len(data))
	}
	if len(data) < p.size-head { // the end of the segment was not captured
		f.lost = "a segment was captured in part"
	}
	var all []Message
	at := 0
	for f.lost == "" {
		layers, used := f.frame(f.buf[at:], back)
		if used == 0 {
			break
		}
		at += used
		all = append(all, Message{key.src, key.dst, layers})
	}
	f.used(at)
	if f.lost != "" {
		all = append(all, f.leftOut(f.lost))
	}
	switch {
	case f.other:
		d.forget(f)
		d.skip("TCP of no iWARP connection whose beginning was captured")
		return all
	case f.lost != "":
		d.forget(f)
		return all
	case f.ends && int32(f.next-f.end) >= 0: // otherwise segments from before the FIN may still come
		return append(all, d.cutOff(f)...)
	}
	d.account(f)
	return append(all, d.evict(f)...)
}

// account updates the total size by the change in the size of f.
func (d *Decoder) account(f *flow) {
	d.held -= f.held
	f.held = cap(f.buf) + f.waiting + segmentCost*(cap(f.early)-len(f.early))
	d.held += f.held
}

// forget drops a flow, which may be nil.
func (d *Decoder) forget(f *flow) {
	if f == nil {
		return
	}
	d.held -= f.held
	d.recent.Remove(f.place)
	delete(d.flows, f.key)
}

// cutOff drops a flow, which may be nil, whose connection has ended. It returns a message if that was within a frame.
func (d *Decoder) cutOff(f *flow) []Message {
	if f == nil {
		return nil
	}
	d.forget(f)
	d.skipMany(reasonGap, len(f.early))
	if len(f.buf) == 0 {
		return nil
	}
	return []Message{f.leftOut("the connection ends within a frame")}
}

// evict drops the flows that were silent for longest, except f, while the limits are
// exceeded. It returns messages about them.
func (d *Decoder) evict(f *flow) (all []Message) {
	for len(d.flows) > mostFlows || d.held > mostHeld {
		why := "the connection is no longer followed: the capture has too many others"
		if d.held > mostHeld {
			why = "the connection is no longer followed: incomplete frames of this and others take too much memory"
		}
		oldest := d.recent.Back().Value.(*flow)
		if oldest == f {
			break // one flow can't hold too much
		}
		all = append(all, oldest.leftOut(why))
		d.forget(oldest)
	}
	return all
}

// leftOut is the message about a flow that ends before its connection does.
func (f *flow) leftOut(why string) Message {
	return Message{f.key.src, f.key.dst, []Layer{damaged(why)}}
}

// put takes the bytes that are new, and those behind them that came before.
func (f *flow) put(seq uint32, data []byte) {
	if ahead := int32(seq - f.next); ahead > 0 {
		f.keep(seq, data)
		return
	}
	f.appendAt(seq, data)
	n := 0
	for n < len(f.early) && int32(f.early[n].seq-f.next) <= 0 {
		f.appendAt(f.early[n].seq, f.early[n].data)
		f.waiting -= len(f.early[n].data) + segmentCost
		n++
	}
	if f.early = slices.Delete(f.early, 0, n); len(f.early) == 0 {
		f.early = nil
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

// used drops the first bytes of buf, which no frame needs any more.
func (f *flow) used(n int) {
	switch rest := f.buf[n:]; {
	case len(rest) == 0:
		f.buf = nil // of most flows nothing is kept between segments
	case len(rest) < cap(f.buf)/4:
		f.buf = bytes.Clone(rest)
	default:
		f.buf = f.buf[:copy(f.buf, rest)]
	}
}

// keep holds a segment for later. A gap that is not filled soon is a packet that was
// not captured.
func (f *flow) keep(seq uint32, data []byte) {
	at, had := slices.BinarySearchFunc(f.early, seq, func(e early, seq uint32) int {
		return cmp.Compare(int32(e.seq-f.next), int32(seq-f.next))
	})
	if len(data) == 0 {
		return
	}
	if had { // sent again, maybe longer
		if more := len(data) - len(f.early[at].data); more > 0 {
			f.waiting += more
			f.early[at].data = bytes.Clone(data)
		}
		if f.waiting > mostWaiting {
			f.lost = "segments are missing in the capture"
		}
		return
	}
	if f.waiting += len(data) + segmentCost; f.waiting > mostWaiting {
		f.lost = "segments are missing in the capture"
		return
	}
	f.early = slices.Insert(f.early, at, early{seq, bytes.Clone(data)})
}
