package rdmatest

import (
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// longestFrame is that of an Ethernet whose packets have 1500 bytes, with a VLAN's tag.
const longestFrame = 18 + 1500

// Kinds of flow rules.
const (
	flowNormal = iota
	flowAllDefault
	flowMCDefault
	flowSniffer
)

// receiveFrame has a frame arrive wherever a rule asks for it, also where it came from: the
// NIC is a switch.
func (f *Fabric) receiveFrame(from *Device, k *packet) {
	b := k.data
	if len(b) > longestFrame {
		return
	}
	fill := k.w.Flags&abi.IB_SEND_IP_CSUM != 0
	if fill {
		b = slices.Clone(b)
	}
	frame := fakeverbs.ReadFrame(b)
	checked := findChecked(frame)
	if fill {
		checked.fill()
	}
	wc := abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: uint32(len(b))}
	if checked.right() {
		wc.WcFlags = abi.IB_WC_IP_CSUM_OK
	}
	for _, d := range f.devices {
		if !f.hasPath(from, d) {
			continue
		}
		for _, qp := range d.takers(frame) {
			if to := f.taker(d, qp, frame); to != nil {
				f.receiveFrameAt(b, wc, to)
			}
		}
	}
}

// takers are the queue pairs that rules give a frame to: those of the best rule, and where there
// is none those of the rules for all the rest; and whoever listens in.
func (d *Device) takers(frame *fakeverbs.Frame) (all []*fakeverbs.QP) {
	var best, listening []*fakeverbs.Flow
	for _, k := range d.verbs.Openings() {
		for _, r := range k.Flows() {
			switch {
			case r.Attr.Type == flowMCDefault && !frame.Group || !r.Matches(frame):
			case r.Attr.Type == flowSniffer:
				listening = append(listening, r)
			case len(best) == 0 || goesBefore(r, best[0]):
				best = []*fakeverbs.Flow{r}
			case !goesBefore(best[0], r):
				best = append(best, r)
			}
		}
	}
	for _, r := range append(best, listening...) {
		if !slices.Contains(all, r.QP) {
			all = append(all, r.QP)
		}
	}
	return all
}

// taker is the queue pair itself, or the WQ that it deals a frame to; nil if that is gone.
func (f *Fabric) taker(d *Device, qp *fakeverbs.QP, frame *fakeverbs.Frame) *pair {
	if qp.Table == nil {
		return f.pairOf(qp)
	}
	if wq := qp.Deal(frame); wq != nil {
		return &pair{d: d, qp: wq}
	}
	return nil
}

// goesBefore: a rule of its own before those for the rest, then the lower number, then the one
// that asks for more.
func goesBefore(a, b *fakeverbs.Flow) bool {
	if rest := b.Attr.Type != flowNormal; (a.Attr.Type != flowNormal) != rest {
		return rest
	}
	if a.Attr.Priority != b.Attr.Priority {
		return a.Attr.Priority < b.Attr.Priority
	}
	return len(a.Specs) > len(b.Specs)
}

// receiveFrameAt drops a frame that finds no receive. wc is the completion of one that has room.
func (f *Fabric) receiveFrameAt(b []byte, wc abi.IbUverbsWc, to *pair) {
	qp := to.qp
	if s := qp.State(); s < abi.IB_QPS_RTR || s == abi.IB_QPS_ERR {
		return
	}
	r := to.takeRecv()
	if r == nil {
		return
	}
	if long := len(b) > roomIn(r.SGL); long || !scatter(qp, r.SGL, b) {
		wc.Status, _ = to.d.rules.(roce).unfit(long)
	}
	qp.Received(r, &wc, false)
	if wc.Status != abi.IB_WC_SUCCESS {
		qp.Break()
		to.end(f)
	}
}
