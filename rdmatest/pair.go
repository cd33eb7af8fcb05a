package rdmatest

import (
	"cmp"
	"slices"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// pair is a queue pair that has sent something or has been connected. The fabric's lock
// guards it.
type pair struct {
	d    *Device
	qp   *fakeverbs.QP
	peer *pair // over iWARP
	id   *cmID // over iWARP

	remote *remote // connected to a queue pair of the network outside

	unsent []*packet // packets that TCP still has to send when this end is closed

	inFlight        []*packet        // sent and not completed, oldest first
	spare           []*packet        // completed, to be used again
	arrived         int              // number of inFlight packets that the peer has received
	fenced          *fakeverbs.Work  // the next send, which waits for the answers of earlier ones
	recvCompletions []recvCompletion // of unordered rules: receives to complete
	due             []*packet        // memory for unordered rules
	timer           *time.Timer
	waits           bool // for its turn at the port
}

// packet is a send on its way.
type packet struct {
	w       *fakeverbs.Work
	data    []byte    // the data for the peer
	buffer  []byte    // memory for data
	due     time.Time // when it arrives
	tries   int       // number of unanswered tries
	givenUp bool      // the last try went unanswered
	rnr     int       // number of tries without a receive at the peer
	cut     int       // bytes after which the connection ends; negative: it does not
	status  uint32    // set when it has arrived
	reply   time.Time // when the sender receives the status
	spare   bool      // it was completed when it left
	local   bool      // it does not leave
	arrived bool      // with unordered rules

	psn, count uint32 // number of the first packet on the wire, and how many there are
}

// pairOf returns the pair of a queue pair, and creates it if necessary.
func (f *Fabric) pairOf(qp *fakeverbs.QP) *pair {
	if p := f.pairs[qp]; p != nil {
		return p
	}
	for _, d := range f.devices {
		if d.verbs.QP(qp.Num) == qp {
			p := &pair{d: d, qp: qp}
			f.pairs[qp] = p
			return p
		}
	}
	return nil // it is gone
}

// rang is called when a queue pair has new sends or has changed.
func (f *Fabric) rang(qp *fakeverbs.QP) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.pairOf(qp); p != nil {
		f.pump(p)
	}
}

// pump does everything that can be done for a queue pair now.
func (f *Fabric) pump(p *pair) {
	switch state := p.qp.State(); {
	case state == abi.IB_QPS_RTS:
	case state == abi.IB_QPS_SQD && !p.d.info.iwarp: // packets on their way still arrive
	case state == abi.IB_QPS_SQD:
		p.sendRest(f)
		p.end(f)
		return
	default:
		p.end(f)
		return
	}
	if u, ok := p.d.rules.(unordered); ok {
		u.pump(f, p)
		return
	}
	now := time.Now()
	if f.isRemote(p) {
		f.pumpRemote(p, now)
		return
	}
	if p.qp.Type == abi.IB_UVERBS_QPT_RC { // others may have many peers
		f.hold(p.qp)
		defer f.release()
	}
	for f.reply(p, now) || f.arrive(p, now) || f.launch(p, now) {
	}
	f.arm(p, now)
}

// hold locks the opening of a queue pair until release, instead of for each request.
func (f *Fabric) hold(qp *fakeverbs.QP) {
	if k := qp.Kernel(); !k.IsHeld() {
		k.Hold()
		f.holding = append(f.holding, k)
	}
}

func (f *Fabric) release() {
	for _, k := range f.holding {
		k.Release()
	}
	f.holding, f.route = f.holding[:0], route{}
}

// route is where the packets of a pair arrive, while the openings of both ends are held and neither queue pair has
// failed.
type route struct{ from, to *pair }

// end drops the packets on their way, which the driver has flushed.
func (p *pair) end(f *Fabric) {
	p.inFlight, p.arrived, p.fenced = nil, 0, nil
	f.route = route{}
	if p.timer != nil {
		p.timer.Stop()
	}
	p.endRemote()
	p.d.rules.ended(f, p)
	if p.d.verbs.QP(p.qp.Num) != p.qp {
		delete(f.pairs, p.qp)
	}
}

// reply completes the oldest send if its answer has arrived.
func (f *Fabric) reply(p *pair, now time.Time) bool {
	if p.arrived == 0 || p.inFlight[0].reply.After(now) {
		return false
	}
	p.arrived--
	f.complete(p)
	return true
}

// complete removes the oldest packet from those on their way, and completes its send.
func (f *Fabric) complete(p *pair) {
	k := p.inFlight[0]
	p.inFlight = slices.Delete(p.inFlight, 0, 1)
	if !k.spare {
		f.sent(p, k.w, k.status)
	}
	p.qp.Recycle(k.w)
	if cap(k.buffer) <= 1<<16 {
		p.spare = append(p.spare, k)
	}
}

// newPacket returns a packet for a send. It reuses a completed packet and its buffer if
// there is one.
func (p *pair) newPacket(w *fakeverbs.Work) *packet {
	n := len(p.spare) - 1
	if n < 0 {
		return &packet{w: w, cut: -1}
	}
	k := p.spare[n]
	p.spare = p.spare[:n]
	*k = packet{w: w, cut: -1, buffer: k.buffer}
	return k
}

// sent completes a send.
func (f *Fabric) sent(p *pair, w *fakeverbs.Work, status uint32) {
	p.qp.Sent(w, status)
	if status != abi.IB_WC_SUCCESS && !p.goesOn() {
		p.end(f)
	}
}

// arrive delivers the oldest send that is due to the peer.
func (f *Fabric) arrive(p *pair, now time.Time) bool {
	if p.arrived == len(p.inFlight) || p.inFlight[p.arrived].due.After(now) {
		return false
	}
	k := p.inFlight[p.arrived]
	if k.local {
		p.arrived++
		return true
	}
	if f.isPaused() || p.d.rules.blocked(p) {
		return false
	}
	status, again := p.d.rules.deliver(f, p, k)
	if status != abi.IB_WC_SUCCESS || again > 0 {
		f.route = route{}
	}
	switch {
	case len(p.inFlight) == 0: // the packet ended the connection
		return false
	case again > 0:
		k.due = now.Add(again)
	default:
		k.status, k.reply = status, f.delayed(now)
		p.arrived++
	}
	return true
}

// arriveAll delivers all packets on their way. TCP does so before it reports that one side
// has ended the connection.
func (f *Fabric) arriveAll(p *pair) {
	for f.wire.loss < 1 && p.arrived < len(p.inFlight) && f.arrive(p, p.inFlight[p.arrived].due) {
	}
}

// failing reports whether the newest send failed locally. That send ends the queue pair when
// it is completed. No later sends leave.
func (p *pair) failing() bool {
	n := len(p.inFlight) - 1
	return n >= 0 && p.inFlight[n].local && p.inFlight[n].status != abi.IB_WC_SUCCESS
}

// launch sends the oldest work request on its way.
func (f *Fabric) launch(p *pair, now time.Time) bool {
	if p.failing() || !f.mayLeave(p, now) {
		return false
	}
	w, ok := p.next()
	if !ok {
		return false
	}
	k := p.newPacket(w)
	if p.d.faults.strikeSend(k); k.status == abi.IB_WC_SUCCESS {
		k.status = p.d.rules.check(f, p, k)
	}
	k.due = f.delayed(p.d.leave(now, len(k.data)))
	switch {
	case k.status != abi.IB_WC_SUCCESS || isLocal(w): // in its turn
		k.due, k.local = time.Time{}, true
		p.inFlight = append(p.inFlight, k)
	case p.d.rules.acknowledges(p.qp, w):
		p.inFlight = append(p.inFlight, k)
	case p.qp.Type == abi.IB_UVERBS_QPT_UD || p.qp.Type == abi.IB_UVERBS_QPT_RAW_PACKET:
		f.sent(p, w, abi.IB_WC_SUCCESS)
		f.datagram(p, k, now)
	default:
		k.spare = true
		p.inFlight = append(p.inFlight, k)
		f.sent(p, w, abi.IB_WC_SUCCESS)
	}
	return true
}

// next takes the next work request, unless it has to wait because of a fence.
func (p *pair) next() (w *fakeverbs.Work, ok bool) {
	if w, ok = p.fenced, p.fenced != nil; !ok {
		w, ok = p.qp.TakeSend()
	}
	p.fenced = nil
	if ok && (w.Flags&abi.IB_SEND_FENCE != 0 && slices.ContainsFunc(p.inFlight, func(k *packet) bool { return fetches(k.w) }) || !p.hasDepth(w)) {
		p.fenced = w
		return nil, false
	}
	return w, ok
}

// usesDepth reports whether a send counts as one of the READs and atomics that may be outstanding.
func usesDepth(w *fakeverbs.Work) bool {
	return fetches(w) || w.Opcode == abi.IB_UVERBS_WR_ATOMIC_WRITE
}

// hasDepth reports whether fewer READs and atomics are outstanding than the queue pair may have. With a depth
// of 0, they wait for ever.
func (p *pair) hasDepth(w *fakeverbs.Work) bool {
	if !p.d.info.softRoCE || !usesDepth(w) || !carries(p.qp.Type, w) {
		return true
	}
	n, _ := p.qp.Depths()
	for _, k := range p.inFlight {
		if n > 0 && usesDepth(k.w) {
			n--
		}
	}
	return n > 0
}

// arm sets the timer of the pair to the time when pump has to be called next.
func (f *Fabric) arm(p *pair, now time.Time) {
	var next time.Time
	for _, at := range []int{0, p.arrived} {
		if at >= len(p.inFlight) {
			continue
		}
		when := p.inFlight[at].due
		if at < p.arrived {
			when = p.inFlight[at].reply
		}
		if when.After(now) && (next.IsZero() || when.Before(next)) {
			next = when
		}
	}
	if !next.IsZero() {
		f.setTimer(p, next.Sub(now))
	}
}

// setTimer makes pump be called after d.
func (f *Fabric) setTimer(p *pair, d time.Duration) {
	if p.timer == nil {
		p.timer = time.AfterFunc(d, func() { f.rang(p.qp) })
		return
	}
	p.timer.Reset(d)
}

// rules define how a kind of device handles sends. A status is that of a completion.
type rules interface {
	// check gathers a send's data and carries out sends that need no peer. It returns the
	// status of an error at this end, if there is one.
	check(f *Fabric, p *pair, k *packet) (status uint32)
	// acknowledges reports whether a send completes when the peer has answered, instead of
	// when it has left.
	acknowledges(qp *fakeverbs.QP, w *fakeverbs.Work) bool
	// blocked reports whether the network holds back the packets on their way.
	blocked(p *pair) bool
	// deliver passes a send to the peer. If again is not 0, the send is tried again after that time.
	deliver(f *Fabric, p *pair, k *packet) (status uint32, again time.Duration)
	// ended is called when the queue pair has entered a state in which it can't send.
	ended(f *Fabric, p *pair)
}

// unordered are rules of devices whose messages and completions are in no order.
type unordered interface {
	// pump does everything that can be done now for a queue pair that can send.
	pump(f *Fabric, p *pair)
}

// roceRules are rules of devices over RoCE.
type roceRules interface {
	// unfit returns the results of a SEND and of the receive that it took, if the message
	// is too long for the receive or its memory can't be written.
	unfit(long bool) (recv uint32, v verdict)
}

// isLocal reports whether a send needs no peer.
func isLocal(w *fakeverbs.Work) bool {
	return w.Opcode == abi.IB_UVERBS_WR_LOCAL_INV || w.Opcode == abi.IB_UVERBS_WR_BIND_MW || w.Opcode == fakeverbs.NoOpcode || w.Opcode == fakeverbs.NOP
}

// right returns the access right that a send needs at the peer. 0 means that it takes a
// receive.
func right(w *fakeverbs.Work) uint32 {
	switch w.Opcode {
	case abi.IB_UVERBS_WR_RDMA_READ, abi.IB_UVERBS_WR_RDMA_READ_WITH_INV:
		return abi.IB_UVERBS_ACCESS_REMOTE_READ
	case abi.IB_UVERBS_WR_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, abi.IB_UVERBS_WR_ATOMIC_WRITE:
		return abi.IB_UVERBS_ACCESS_REMOTE_WRITE
	case abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP:
		return abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
	case abi.IB_UVERBS_WR_FLUSH:
		return cmp.Or(flushRights[w.FlushTypes], uint32(abi.IB_UVERBS_ACCESS_FLUSH_GLOBAL))
	}
	return 0
}

var flushRights = map[uint8]uint32{
	abi.IB_FLUSH_GLOBAL:                           abi.IB_UVERBS_ACCESS_FLUSH_GLOBAL,
	abi.IB_FLUSH_PERSISTENT:                       abi.IB_UVERBS_ACCESS_FLUSH_PERSISTENT,
	abi.IB_FLUSH_GLOBAL | abi.IB_FLUSH_PERSISTENT: abi.IB_UVERBS_ACCESS_FLUSH_GLOBAL | abi.IB_UVERBS_ACCESS_FLUSH_PERSISTENT,
}

// fetches reports whether a send brings data back.
func fetches(w *fakeverbs.Work) bool {
	r := right(w)
	return r == abi.IB_UVERBS_ACCESS_REMOTE_READ || r == abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
}

func hasImm(w *fakeverbs.Work) bool {
	return w.Opcode == abi.IB_UVERBS_WR_SEND_WITH_IMM || w.Opcode == abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM
}

// takes reports whether a send takes a receive of the peer.
func takes(w *fakeverbs.Work) bool { return right(w) == 0 || hasImm(w) }

// longest is the length of the longest message of any device, in bytes.
const longest = 1 << 31

// gather reads the memory that a send names. It reports whether its keys are valid.
func gather(qp *fakeverbs.QP, k *packet) (ok bool) {
	w := k.w
	if w.Inline != nil && len(w.Front) == 0 {
		k.data = w.Inline
		return true
	}
	if w.Len() > longest {
		return false
	}
	k.room(int(w.Len()))
	rest := k.buffer[copy(k.buffer, w.Front):]
	rest = rest[copy(rest, w.Inline):]
	for _, s := range w.SGL {
		if s.Length == 0 {
			continue // its address is not used
		}
		if !qp.ReadSGE(s, rest[:s.Length]) {
			return false
		}
		rest = rest[s.Length:]
	}
	k.data = k.buffer
	return true
}

// room returns memory for n bytes, which is the packet's until it is completed.
func (k *packet) room(n int) []byte {
	k.buffer = slices.Grow(k.buffer[:0], n)[:n]
	return k.buffer
}

// mayWrite reports whether the keys of an SGL allow writing.
func mayWrite(qp *fakeverbs.QP, sgl []fakeverbs.SGE) bool {
	for _, s := range sgl {
		if !qp.LocalOK(s, true) {
			return false
		}
	}
	return true
}

// endSink invalidates the key of the memory that a READ_WITH_INV filled. A READ of no
// bytes may have no key.
func endSink(qp *fakeverbs.QP, w *fakeverbs.Work) {
	if w.Opcode == abi.IB_UVERBS_WR_RDMA_READ_WITH_INV && len(w.SGL) > 0 {
		qp.Invalidate(w.SGL[0].LKey)
	}
}

// roomIn returns how many bytes an SGL has room for.
func roomIn(sgl []fakeverbs.SGE) (n int) {
	for _, s := range sgl {
		n += int(s.Length)
	}
	return n
}

// scatter copies b into the memory of an SGL. It reports whether its keys are valid.
func scatter(qp *fakeverbs.QP, sgl []fakeverbs.SGE, b []byte) bool {
	for _, s := range sgl {
		n := min(len(b), int(s.Length))
		if n == 0 {
			continue
		}
		if s.Length = uint32(n); !qp.WriteSGE(s, b[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

// place writes data to the memory that the work request names. It reports whether the memory is there.
func place(to *pair, w *fakeverbs.Work, data []byte) bool {
	m, addr := to.qp.RemoteMemory(w.RKey, w.RemoteAddr)
	return m.Write(addr, data) == nil
}
