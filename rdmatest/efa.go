package rdmatest

import (
	"slices"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/fakeverbs/efa"
)

// efaRules are the rules of EFA. Messages and completions are in no order, and an error concerns one message.
type efaRules struct{}

func (efaRules) check(f *Fabric, p *pair, k *packet) (status uint32) {
	ok := false
	if fetches(k.w) {
		ok = mayWrite(p.qp, k.w.SGL)
	} else {
		ok = gather(p.qp, k)
	}
	if !ok {
		f.mistake(p, "a send uses local memory outside its PD, or an invalid local key")
		return abi.IB_WC_LOC_PROT_ERR
	}
	return abi.IB_WC_SUCCESS
}

// acknowledges returns false for UD, whose sends complete when they have left.
func (efaRules) acknowledges(qp *fakeverbs.QP, _ *fakeverbs.Work) bool { return isSRD(qp) }

func isSRD(qp *fakeverbs.QP) bool {
	q := efa.QPOf(qp)
	return q != nil && q.SRD()
}

func (efaRules) blocked(*pair) bool { return false }

func (efaRules) ended(f *Fabric, p *pair) { p.writeRecvCompletions(f, forever) }

// The device tries to reach a peer for half a second. Without a receive there, it waits before it tries again, each
// time longer. How long the hardware takes is not known.
const (
	efaTries   = 7
	efaPause   = 67 * time.Millisecond
	efaRNRWait = 640 * time.Microsecond
)

// deliver carries out a message at the peer.
func (efaRules) deliver(f *Fabric, p *pair, k *packet) (status uint32, again time.Duration) {
	if q := efa.QPOf(p.qp); q != nil && isSRD(p.qp) && !q.Reaches(k.w) {
		return abi.IB_WC_REM_ABORT_ERR, 0
	}
	d := f.byGID(k.w.To.AH.Attr.Grh.Dgid)
	isThere := d != nil && f.hasPath(p.d, d)
	lost := f.loses()
	if !isSRD(p.qp) {
		if isThere && !lost {
			f.efaDatagram(p, f.efaPeer(p, d, k.w.To), k)
		}
		return abi.IB_WC_SUCCESS, 0
	}
	if !isThere || lost {
		if !isThere {
			k.tries++
		}
		if k.tries > efaTries {
			return abi.IB_WC_RESP_TIMEOUT_ERR, 0
		}
		return 0, efaPause
	}
	to := f.efaPeer(p, d, k.w.To)
	switch {
	case to == nil:
		f.mistake(p, "no SRD queue pair %d that can receive, or another Q_Key", k.w.To.QPN)
		return abi.IB_WC_REM_INV_RD_REQ_ERR, 0
	case k.cut >= 0:
		if part := k.data[:min(k.cut, len(k.data))]; right(k.w) != 0 && isOpen(to, k) && len(part) > 0 {
			place(to, k.w, part)
		}
		return abi.IB_WC_REM_ABORT_ERR, 0
	case right(k.w) != 0:
		return f.efaAccess(p, to, k)
	}
	return f.efaMessage(p, to, k)
}

// efaDatagram delivers a datagram to a queue pair, unless it can't accept the datagram. What the device writes in front
// of the data is not known.
func (f *Fabric) efaDatagram(p, to *pair, k *packet) {
	if to == nil {
		return
	}
	data := slices.Concat(make([]byte, grhSize), k.data)
	if next, ok := to.qp.PeekRecv(); !ok || to.d.stalled || len(data) > roomIn(next.SGL) {
		return // the receive stays on the queue
	}
	r := to.takeRecv()
	n := recvCompletion{r: r, wc: abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: uint32(len(data))}}
	if !scatter(to.qp, r.SGL, data) {
		n.wc.Status = abi.IB_WC_LOC_PROT_ERR
	}
	f.queueRecvCompletion(p, to, k, n)
}

// efaPeer returns the queue pair that a message is for, or nil if it does not accept the message.
func (f *Fabric) efaPeer(p *pair, d *Device, to fakeverbs.Destination) *pair {
	qp := d.verbs.QP(to.QPN)
	if qp == nil || efa.QPOf(qp) == nil || qp.Type != p.qp.Type {
		return nil
	}
	if a := qp.Attr(); a.QpState < abi.IB_QPS_RTR || a.QpState == abi.IB_QPS_ERR || a.Qkey != to.QKey {
		return nil
	}
	return f.pairOf(qp)
}

// efaAccess carries out a READ or a WRITE at the peer, which has to have an address handle for the sender.
func (f *Fabric) efaAccess(p, to *pair, k *packet) (status uint32, again time.Duration) {
	q := efa.QPOf(to.qp)
	if !q.Knows(p.d.gids[0]) {
		f.mistake(to, "the PD has no address handle for the peer that accesses its memory")
		return abi.IB_WC_REM_OP_ERR, 0
	}
	if !isOpen(to, k) {
		f.mistake(to, "key %#x does not allow access to %d bytes at %#x", k.w.RKey, reach(k), k.w.RemoteAddr)
		return abi.IB_WC_REM_ACCESS_ERR, 0
	}
	var r *fakeverbs.Recv
	if hasImm(k.w) && !q.Unsolicited() {
		if r = to.takeRecv(); r == nil {
			return f.efaNotReady(p, to, k)
		}
	}
	switch {
	case fetches(k.w):
		data, ok := f.fetch(to, k)
		if !ok {
			return abi.IB_WC_REM_ACCESS_ERR, 0
		}
		if !scatter(p.qp, k.w.SGL, data) {
			return abi.IB_WC_LOC_PROT_ERR, 0
		}
	case len(k.data) > 0 && !place(to, k.w, k.data):
		return abi.IB_WC_REM_ACCESS_ERR, 0
	}
	q.CountRemote(fetches(k.w))
	if hasImm(k.w) {
		f.queueRecvCompletion(p, to, k, recvCompletion{r: r, wc: abi.IbUverbsWc{Opcode: abi.IB_WC_RECV_RDMA_WITH_IMM, ByteLen: uint32(len(k.data))}})
	}
	return abi.IB_WC_SUCCESS, 0
}

// efaMessage carries out a SEND at the peer. A receive that is too short stays on the queue.
func (f *Fabric) efaMessage(p, to *pair, k *packet) (status uint32, again time.Duration) {
	data := k.data
	next, ok := to.qp.PeekRecv()
	switch {
	case !ok || to.d.stalled:
		return f.efaNotReady(p, to, k)
	case len(data) > roomIn(next.SGL):
		f.mistake(to, "a message of %d bytes does not fit in its receive", len(data))
		return abi.IB_WC_REM_INV_REQ_ERR, 0
	}
	r := to.takeRecv()
	n := recvCompletion{r: r, wc: abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: uint32(len(data))}}
	if !scatter(to.qp, r.SGL, data) {
		f.mistake(to, "the memory of a receive is not writable")
		n.wc.Status, status = abi.IB_WC_LOC_PROT_ERR, abi.IB_WC_BAD_RESP_ERR
	}
	f.queueRecvCompletion(p, to, k, n)
	return status, 0
}

// efaNotReady makes a message wait because the peer has no receive.
func (f *Fabric) efaNotReady(p, to *pair, k *packet) (status uint32, again time.Duration) {
	f.mistake(to, "a message arrived, but no receive was posted")
	k.rnr++
	if most, ok := efa.QPOf(p.qp).RNRRetries(); ok && k.rnr > most {
		return abi.IB_WC_RNR_RETRY_EXC_ERR, 0
	}
	return 0, efaRNRWait << min(k.rnr-1, 7)
}

// recvCompletion is the completion of a receive that the device has not written yet.
type recvCompletion struct {
	r   *fakeverbs.Recv // nil if the message took none
	wc  abi.IbUverbsWc
	due time.Time
}

// queueRecvCompletion queues the completion of a receive. The device writes it now or later.
func (f *Fabric) queueRecvCompletion(p, to *pair, k *packet, n recvCompletion) {
	n.wc.SrcQp, n.wc.PortNum = p.qp.Num, 1
	if hasImm(k.w) {
		n.wc.Ex, n.wc.WcFlags = k.w.Imm, abi.IB_WC_WITH_IMM
	}
	if status, ok := to.d.faults.strikeRecv(); ok {
		n.wc.Status = status
	}
	if n.r == nil {
		n.r = new(fakeverbs.Recv)
		n.wc.WcFlags |= unsolicited
	}
	n.r.From = p.d.gids[0]
	n.due = f.postponed(time.Now())
	to.recvCompletions = append(to.recvCompletions, n)
	if f.inOrder || f.random.IntN(2) == 0 {
		to.writeRecvCompletions(f, 0)
	}
	if len(to.recvCompletions) > 0 {
		f.unwritten = append(f.unwritten, to)
	}
}

// unsolicited is the flag of a completion that takes no receive. It is not a flag of the verbs.
const unsolicited = 1 << 30

// writeRecvCompletions writes the completions of receives that are due within a time from now, in any order.
func (p *pair) writeRecvCompletions(f *Fabric, in time.Duration) {
	for limit := time.Now().Add(in); ; {
		var due []int
		for i := range p.recvCompletions {
			if !p.recvCompletions[i].due.After(limit) {
				due = append(due, i)
			}
		}
		if len(due) == 0 {
			return
		}
		i := due[f.any(len(due))]
		n := p.recvCompletions[i]
		p.recvCompletions = slices.Delete(p.recvCompletions, i, i+1)
		if q := efa.QPOf(p.qp); n.wc.WcFlags&unsolicited == 0 {
			p.qp.Received(n.r, &n.wc, false)
		} else if q != nil {
			n.wc.WcFlags &^= unsolicited
			q.CompleteUnsolicited(n.r.From, &n.wc)
		}
	}
}

// any returns one of n numbers.
func (f *Fabric) any(n int) int {
	if n == 1 || f.inOrder {
		return 0
	}
	return f.random.IntN(n)
}

// postponed returns when an event of a device without order happens that could happen at a time.
func (f *Fabric) postponed(at time.Time) time.Time {
	if f.wire.reordered > 0 && f.random.Float64() < f.wire.reordered {
		const most = time.Millisecond
		return at.Add(time.Duration(f.random.Int64N(int64(most))))
	}
	return at
}

// efaPool is how many messages of a queue pair are on their way at a time.
const efaPool = 64

// pump implements unordered.
func (efaRules) pump(f *Fabric, p *pair) {
	now := time.Now()
	for {
		for len(p.inFlight) < efaPool && f.efaLaunch(p, now) {
		}
		due := p.due[:0]
		for _, k := range p.inFlight {
			if when := k.when(); !when.After(now) && (k.arrived || k.local || !f.isPaused()) {
				due = append(due, k)
			}
		}
		if p.due = due; len(due) == 0 {
			break
		}
		f.efaStep(p, due[f.any(len(due))], now)
	}
	unwritten := f.unwritten
	f.unwritten = nil
	for _, to := range append(unwritten, p) {
		to.writeRecvCompletions(f, 0)
		f.armUnordered(to, now)
	}
}

// when returns when the next thing happens to a packet.
func (k *packet) when() time.Time {
	if k.arrived {
		return k.reply
	}
	return k.due
}

// efaStep delivers a message, or completes it at the sender.
func (f *Fabric) efaStep(p *pair, k *packet, now time.Time) {
	if k.arrived {
		i := slices.Index(p.inFlight, k)
		p.inFlight = slices.Delete(p.inFlight, i, i+1)
		if !k.spare {
			p.qp.Sent(k.w, k.status)
		}
		p.spare = append(p.spare, k)
		return
	}
	if !k.local {
		status, again := p.d.rules.deliver(f, p, k)
		if again > 0 {
			k.due = now.Add(again)
			return
		}
		k.status = status
	}
	k.arrived, k.reply = true, f.postponed(now.Add(f.wire.latency))
	if k.local {
		k.reply = now
	}
}

// efaLaunch sends the oldest work request on its way.
func (f *Fabric) efaLaunch(p *pair, now time.Time) bool {
	if !f.mayLeave(p, now) {
		return false
	}
	w, ok := p.qp.TakeSend()
	if !ok {
		return false
	}
	k := p.newPacket(w)
	if p.d.faults.strikeSend(k); k.status == abi.IB_WC_SUCCESS {
		k.status = p.d.rules.check(f, p, k)
	}
	k.due = f.postponed(p.d.leave(now, len(k.data)).Add(f.wire.latency))
	switch {
	case k.status != abi.IB_WC_SUCCESS:
		k.due, k.local = now, true
	case !p.d.rules.acknowledges(p.qp, w):
		k.spare = true
		p.qp.Sent(w, abi.IB_WC_SUCCESS)
	}
	p.inFlight = append(p.inFlight, k)
	return true
}

// armUnordered sets the timer of a pair to the time when pump has to be called next.
func (f *Fabric) armUnordered(p *pair, now time.Time) {
	var next time.Time
	earlier := func(when time.Time) {
		if !next.After(now) || when.Before(next) {
			next = when
		}
	}
	for _, k := range p.inFlight {
		if when := k.when(); when.After(now) {
			earlier(when)
		}
	}
	for i := range p.recvCompletions {
		earlier(p.recvCompletions[i].due)
	}
	switch {
	case !next.After(now) && len(p.recvCompletions) == 0:
	case p.timer == nil:
		p.timer = time.AfterFunc(next.Sub(now), func() { f.rang(p.qp) })
	default:
		p.timer.Reset(next.Sub(now))
	}
}
