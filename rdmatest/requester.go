package rdmatest

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/internal/roce"
)

// remote is the state of a queue pair that is connected to one of the network outside. Packets are numbered, with
// numbers of 24 bits.
type remote struct {
	route roce.Route
	mtu   int    // of the path, in bytes
	qpn   uint32 // of the peer

	sends    bool      // the next five fields are valid
	next     uint32    // number of the first packet of the next send
	oldest   uint32    // number of the oldest packet that has not been answered
	cursor   uint32    // number of the packet that leaves next, from oldest to next
	reads    []uint32  // numbers behind the last answers to requests for data that have left
	resumed  bool      // packets from oldest on have been sent again, because the peer has missed one
	tries    int       // timeouts since something was answered
	rnr      int       // answers of a peer that was not ready since something was answered
	ready    time.Time // when to try again after the last one
	deadline time.Time // for an answer; zero: none is expected

	responder
}

const (
	mask24 = 1<<24 - 1
	// window is how many packets may be unanswered.
	window = 64
	// mostUnanswered is how many numbers sends that are not answered may take: half of all. The longest message takes
	// so many at a path MTU of 256.
	mostUnanswered = 1 << 23
	// readWindow is how many packets of data one request asks for. A longer READ takes several requests, so that the
	// answer fits in the buffers of sockets.
	readWindow = 32
	// ackEach is after how many packets of a message an answer is asked for.
	ackEach = 16
)

// distance returns how far number a is ahead of b.
func distance(a, b uint32) int { return int(int32((a-b)<<8) >> 8) }

// pumpRemote is pump for a queue pair that is connected to one outside.
func (f *Fabric) pumpRemote(p *pair, now time.Time) {
	r := p.remote
	if !r.sends {
		r.sends, r.next = true, p.qp.Attr().SqPsn&mask24
		r.oldest, r.cursor = r.next, r.next
	}
	f.expire(p, now)
	for p.remote == r && (f.retire(p) || f.transmit(p, now) || f.launchOut(p, now)) {
	}
	if p.remote == r {
		f.armRemote(p, now)
	}
}

// expire sends packets again after the acknowledgement timeout, or gives up.
func (f *Fabric) expire(p *pair, now time.Time) {
	r := p.remote
	if r.deadline.IsZero() || r.deadline.After(now) {
		return
	}
	a := p.qp.Attr()
	if r.tries++; r.tries > p.retries(&a) {
		p.failSend(r.oldest, abi.IB_WC_RETRY_EXC_ERR)
		return
	}
	p.resume(now)
}

// resume makes the queue pair send all packets again that have not been answered.
func (p *pair) resume(now time.Time) {
	r := p.remote
	r.cursor, r.reads = r.oldest, nil
	r.deadline = p.answerDue(now)
}

// answerDue returns the deadline for an answer to what leaves now.
func (p *pair) answerDue(now time.Time) time.Time {
	a := p.qp.Attr()
	if a.Timeout == 0 {
		return time.Time{}
	}
	return now.Add(answerTime(&a))
}

// holding returns the send that a packet belongs to, or nil.
func (p *pair) holding(psn uint32) *packet {
	for _, k := range p.inFlight {
		if !k.local && distance(psn, k.psn) >= 0 && distance(psn, k.psn+k.count) < 0 {
			return k
		}
	}
	return nil
}

// failSend makes the send of a packet, before which all are answered, complete with an error.
func (p *pair) failSend(psn uint32, status uint32) {
	if k := p.holding(psn); k != nil {
		k.status, k.local = status, true
		p.remote.deadline = time.Time{}
	}
}

// retire completes the oldest send if it has been answered.
func (f *Fabric) retire(p *pair) bool {
	if len(p.inFlight) == 0 {
		return false
	}
	k := p.inFlight[0]
	if !k.local && distance(p.remote.oldest, k.psn+k.count) < 0 {
		return false
	}
	if !k.local {
		endSink(p.qp, k.w)
	}
	f.complete(p)
	return true
}

// transmit sends the next packet.
func (f *Fabric) transmit(p *pair, now time.Time) bool {
	r := p.remote
	if r.cursor == r.next || distance(r.cursor, r.oldest) >= window || r.ready.After(now) || f.isPaused() || !f.mayLeave(p, now) {
		return false
	}
	k := p.holding(r.cursor)
	if k == nil { // it has failed
		return false
	}
	pkt, n := p.request(k, int(r.cursor-k.psn)&mask24)
	if n == 0 {
		return false
	}
	pkt.DestQPN, pkt.PSN = r.qpn, r.cursor
	pkt.Opcode |= services[p.qp.Type] << 5
	r.cursor = (r.cursor + n) & mask24
	p.d.leave(now, len(pkt.Payload))
	f.emit(p.d, r.route, &pkt)
	switch {
	case p.qp.Type == abi.IB_UVERBS_QPT_UC:
		r.oldest = r.cursor
	case r.deadline.IsZero():
		r.deadline = p.answerDue(now)
	}
	return true
}

// request returns the i-th packet of a send, and how many numbers it takes. That is 0 if the peer has to answer earlier
// requests first.
func (p *pair) request(k *packet, i int) (pkt roce.Packet, n uint32) {
	r, w := p.remote, k.w
	at := i * r.mtu
	if fetches(w) {
		if issued, _ := p.qp.Depths(); len(r.reads) >= max(int(issued), 1) {
			return pkt, 0
		}
		n = 1
		pkt = roce.Packet{AckRequest: true, VA: w.RemoteAddr + uint64(at), RKey: w.RKey}
		switch w.Opcode {
		case abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
			pkt.Opcode, pkt.Swap = roce.FetchAdd, w.Compare
		case abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP:
			pkt.Opcode, pkt.Swap, pkt.Compare = roce.CompareSwap, w.Swap, w.Compare
		default:
			n = min(readWindow-uint32(i)%readWindow, k.count-uint32(i)) // a repeated request must not cross two earlier ones
			pkt.Opcode, pkt.Length = roce.ReadRequest, uint32(min(int(n)*r.mtu, int(w.Len())-at))
		}
		r.reads = append(r.reads, (r.cursor+n)&mask24)
		return pkt, n
	}
	last := i == int(k.count)-1
	pkt = roce.Packet{AckRequest: last || i%ackEach == ackEach-1, Payload: k.data[at:min(at+r.mtu, len(k.data))]}
	sending := right(w) == 0
	if !sending && i == 0 {
		pkt.VA, pkt.RKey, pkt.Length = w.RemoteAddr, w.RKey, uint32(len(k.data))
	}
	if last {
		pkt.Solicited, pkt.Imm, pkt.Invalid = w.Flags&abi.IB_SEND_SOLICITED != 0, w.Imm, w.Imm
	}
	pkt.Opcode = opcodes[opcode{sending, i == 0, last, last && hasImm(w), last && w.Opcode == abi.IB_UVERBS_WR_SEND_WITH_INV}]
	return pkt, 1
}

type opcode struct{ sending, first, last, imm, invalidates bool }

var opcodes = map[opcode]byte{
	{sending: true, first: true}:                                roce.SendFirst,
	{sending: true}:                                             roce.SendMiddle,
	{sending: true, last: true}:                                 roce.SendLast,
	{sending: true, last: true, imm: true}:                      roce.SendLastImm,
	{sending: true, last: true, invalidates: true}:              roce.SendLastInv,
	{sending: true, first: true, last: true}:                    roce.SendOnly,
	{sending: true, first: true, last: true, imm: true}:         roce.SendOnlyImm,
	{sending: true, first: true, last: true, invalidates: true}: roce.SendOnlyInv,
	{first: true}:                        roce.WriteFirst,
	{}:                                   roce.WriteMiddle,
	{last: true}:                         roce.WriteLast,
	{last: true, imm: true}:              roce.WriteLastImm,
	{first: true, last: true}:            roce.WriteOnly,
	{first: true, last: true, imm: true}: roce.WriteOnlyImm,
}

// crosses reports whether a send has packets on the wire.
func crosses(w *fakeverbs.Work) bool {
	switch w.Opcode {
	case abi.IB_UVERBS_WR_FLUSH, abi.IB_UVERBS_WR_ATOMIC_WRITE, abi.IB_UVERBS_WR_TSO:
		return false
	}
	return w.Len() <= longest
}

// launchOut takes the oldest work request if all packets of earlier ones have left.
func (f *Fabric) launchOut(p *pair, now time.Time) bool {
	r := p.remote
	if r.cursor != r.next || distance(r.cursor, r.oldest) >= window || p.failing() || !f.mayLeave(p, now) {
		return false
	}
	w, ok := p.next()
	if !ok {
		return false
	}
	count := r.packets(w)
	if unanswered := distance(r.next, r.oldest); unanswered > 0 && unanswered+count > mostUnanswered {
		p.fenced = w // next returns it when more has been answered
		return false
	}
	k := p.newPacket(w)
	if p.d.faults.strikeSend(k); k.status == abi.IB_WC_SUCCESS {
		k.status = p.d.rules.check(f, p, k)
	}
	p.inFlight = append(p.inFlight, k)
	switch {
	case k.status != abi.IB_WC_SUCCESS || isLocal(w):
		k.local = true
		return true
	case !crosses(w):
		f.mistake(p, "operation %d does not exist on the wire", w.Opcode)
		k.local, k.status = true, abi.IB_WC_REM_INV_REQ_ERR
		return true
	}
	k.psn, k.count = r.next, uint32(count)
	r.next = (r.next + k.count) & mask24
	return true
}

// packets returns how many numbers a send takes.
func (r *remote) packets(w *fakeverbs.Work) int {
	if right(w) == abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC {
		return 1
	}
	return max(1, (int(w.Len())+r.mtu-1)/r.mtu)
}

// answered handles an answer of the peer.
func (f *Fabric) answered(p *pair, pkt *roce.Packet, now time.Time) {
	r := p.remote
	if !r.sends || distance(pkt.PSN, r.oldest) < 0 || distance(pkt.PSN, r.next) >= 0 {
		return
	}
	switch pkt.Op() {
	case roce.Acknowledge:
		f.acknowledged(p, pkt, now)
		return
	case roce.AtomicAcknowledge:
		f.passed(p, pkt.PSN, now)
		if k := p.holding(pkt.PSN); k != nil && r.oldest == pkt.PSN && right(k.w) == abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC {
			f.keep(p, k, binary.NativeEndian.AppendUint64(nil, pkt.Original), 0)
			f.progress(p, pkt.PSN+1, now)
		}
		return
	}
	f.passed(p, pkt.PSN, now)
	k := p.holding(pkt.PSN)
	if k == nil || r.oldest != pkt.PSN || right(k.w) != abi.IB_UVERBS_ACCESS_REMOTE_READ {
		return
	}
	at := int(pkt.PSN-k.psn) & mask24 * r.mtu
	if len(pkt.Payload) != min(r.mtu, int(k.w.Len())-at) {
		p.failSend(pkt.PSN, abi.IB_WC_BAD_RESP_ERR)
		return
	}
	f.keep(p, k, pkt.Payload, at)
	f.progress(p, pkt.PSN+1, now)
}

// keep stores data that a send has fetched, from an offset on.
func (f *Fabric) keep(p *pair, k *packet, data []byte, at int) {
	if k.count == 1 && p.qp.KeepFetched(k.w, data) || scatterAt(p.qp, k.w.SGL, at, data) {
		return
	}
	f.mistake(p, "the local memory for the data read is not writable")
	k.status, k.local = abi.IB_WC_LOC_PROT_ERR, true
}

// acknowledged handles an ACK or NAK.
func (f *Fabric) acknowledged(p *pair, pkt *roce.Packet, now time.Time) {
	r := p.remote
	kind, low := pkt.Syndrome&^31, pkt.Syndrome&31
	if kind == roce.SyndromeACK {
		f.passed(p, (pkt.PSN+1)&mask24, now)
		return
	}
	f.passed(p, pkt.PSN, now)
	if r.oldest != pkt.PSN {
		return
	}
	switch kind {
	case roce.SyndromeRNR:
		const always = 7
		a := p.qp.Attr()
		if r.rnr++; a.RnrRetry != always && r.rnr > int(a.RnrRetry) {
			p.failSend(pkt.PSN, abi.IB_WC_RNR_RETRY_EXC_ERR)
			return
		}
		p.resume(now)
		r.ready, r.deadline = now.Add(qpstate.RNRTimer(low)), time.Time{}
	case roce.SyndromeNAK:
		switch low {
		case roce.NAKSequence:
			if !r.resumed {
				r.resumed = true
				p.resume(now)
			}
		case roce.NAKInvalidRequest:
			p.failSend(pkt.PSN, abi.IB_WC_REM_INV_REQ_ERR)
		case roce.NAKRemoteAccess:
			p.failSend(pkt.PSN, abi.IB_WC_REM_ACCESS_ERR)
		default:
			p.failSend(pkt.PSN, abi.IB_WC_REM_OP_ERR)
		}
	}
}

// passed takes all packets before a number for answered, but for those whose answer has data. Such an answer was lost,
// so that they are sent again.
func (f *Fabric) passed(p *pair, psn uint32, now time.Time) {
	r := p.remote
	lost := false
	for _, k := range p.inFlight {
		if k.local || !fetches(k.w) || distance(r.oldest, k.psn+k.count) >= 0 {
			continue
		}
		missing := k.psn
		if distance(r.oldest, missing) > 0 {
			missing = r.oldest
		}
		if lost = distance(psn, missing) > 0; lost {
			psn = missing
		}
		break
	}
	f.progress(p, psn, now)
	if lost && !r.resumed {
		r.resumed = true
		p.resume(now)
	}
}

// progress takes all packets before a number for answered.
func (f *Fabric) progress(p *pair, psn uint32, now time.Time) {
	r := p.remote
	psn &= mask24
	if distance(psn, r.oldest) <= 0 {
		return
	}
	r.oldest, r.tries, r.rnr, r.resumed, r.ready = psn, 0, 0, false, time.Time{}
	r.reads = slices.DeleteFunc(r.reads, func(end uint32) bool { return distance(end, psn) <= 0 })
	if distance(r.cursor, psn) < 0 {
		r.cursor = psn
	}
	r.deadline = time.Time{}
	if r.cursor != r.oldest {
		r.deadline = p.answerDue(now)
	}
}

// endRemote ends the connection to a queue pair outside when the queue pair has left the states in which it has one.
func (p *pair) endRemote() {
	switch state := p.qp.State(); {
	case p.remote == nil || state >= abi.IB_QPS_RTR && state != abi.IB_QPS_ERR:
	case state == abi.IB_QPS_ERR:
		p.dropRecv(abi.IB_WC_WR_FLUSH_ERR)
		fallthrough
	default:
		p.remote = nil
	}
}

// armRemote sets the timer to the time when pump has to be called next.
func (f *Fabric) armRemote(p *pair, now time.Time) {
	r := p.remote
	var next time.Time
	for _, at := range []time.Time{r.deadline, r.ready} {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if !next.IsZero() {
		f.setTimer(p, next.Sub(now))
	}
}
