package rdmatest

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/roce"
)

// responder is the part of a remote that serves the peer's requests.
type responder struct {
	expected uint32 // number of the next request
	messages uint32 // number of complete messages
	silent   bool   // the peer was sent a NAK for expected: what follows that is dropped until it arrives

	open   open            // the kind of the message that is incomplete
	recv   *fakeverbs.Recv // the receive that it takes
	at     int             // its bytes so far
	target fakeverbs.Work  // memory that a WRITE names: address of the next byte and key
	left   uint32          // its bytes that are missing

	answers []answer      // to the newest requests for data
	reading *answer       // a READ that is being answered
	backlog []roce.Packet // requests that arrived meanwhile
}

// open is the kind of an incomplete message.
type open int

const (
	openNone open = iota
	openSend
	openWrite
)

// answer is the answer to a request for data.
type answer struct {
	psn, count uint32
	w          fakeverbs.Work // of a READ: what it names
	length     int
	sent       int    // packets
	original   uint64 // of an atomic operation
}

const (
	// mostAnswers is how many answers are kept for requests that arrive again.
	mostAnswers = 128
	// mostWaiting is how many requests may wait for the end of a READ.
	mostWaiting = 2 * window
	// burst is how many packets of an answer are sent before a pause, in which the peer empties its buffers.
	burst = 64
	pause = 500 * time.Microsecond
)

// requested handles a request of the peer.
func (f *Fabric) requested(p *pair, pkt *roce.Packet) {
	r := p.remote
	if r.reading != nil {
		if len(r.backlog) < mostWaiting {
			later := *pkt
			later.Payload = slices.Clone(pkt.Payload)
			r.backlog = append(r.backlog, later)
		}
		return
	}
	ahead := distance(pkt.PSN, r.expected)
	switch first := begins(pkt.Op()); {
	case p.qp.Type == abi.IB_UVERBS_QPT_UC && (ahead != 0 || first):
		// A message that lost a packet is dropped, and the next one takes its receive.
		if r.open, r.at = openNone, 0; !first {
			return
		}
		r.expected = pkt.PSN
	case ahead > 0:
		if !r.silent {
			r.silent = true
			f.acknowledge(p, r.expected, roce.SyndromeNAK|roce.NAKSequence)
		}
		return
	case ahead < 0:
		f.repeat(p, pkt)
		return
	}
	r.silent = false
	switch pkt.Op() {
	case roce.ReadRequest:
		f.read(p, pkt)
	case roce.CompareSwap, roce.FetchAdd:
		f.atomic(p, pkt)
	case roce.WriteFirst, roce.WriteMiddle, roce.WriteLast, roce.WriteLastImm, roce.WriteOnly, roce.WriteOnlyImm:
		f.write(p, pkt)
	case roce.SendFirst, roce.SendMiddle, roce.SendLast, roce.SendLastImm, roce.SendOnly, roce.SendOnlyImm, roce.SendLastInv, roce.SendOnlyInv:
		f.send(p, pkt)
	default:
		f.nak(p, invalid)
	}
}

// begins reports whether an operation is the first packet of a SEND or WRITE.
func begins(op byte) bool {
	switch op {
	case roce.SendFirst, roce.SendOnly, roce.SendOnlyImm, roce.SendOnlyInv, roce.WriteFirst, roce.WriteOnly, roce.WriteOnlyImm:
		return true
	}
	return false
}

// ends reports whether an operation is the last packet of a SEND or WRITE.
func ends(op byte) bool {
	switch op {
	case roce.SendFirst, roce.SendMiddle, roce.WriteFirst, roce.WriteMiddle:
		return false
	}
	return true
}

// fitsIn reports whether a packet has its place in the message that the queue pair is receiving, of a kind.
func (r *remote) fitsIn(pkt *roce.Packet, kind open) bool {
	n, only := len(pkt.Payload), begins(pkt.Op()) && ends(pkt.Op())
	switch {
	case begins(pkt.Op()) == (r.open != openNone), r.open != openNone && r.open != kind, n > r.mtu, n < r.mtu && !ends(pkt.Op()):
		return false
	}
	return only || n > 0
}

// acknowledge sends an ACK or NAK. An unreliable connection has none.
func (f *Fabric) acknowledge(p *pair, psn uint32, syndrome byte) {
	if p.qp.Type == abi.IB_UVERBS_QPT_RC {
		f.respond(p, psn, roce.Packet{Opcode: roce.Acknowledge, Syndrome: syndrome})
	}
}

func (f *Fabric) respond(p *pair, psn uint32, pkt roce.Packet) {
	r := p.remote
	pkt.DestQPN, pkt.PSN, pkt.MSN = r.qpn, psn&mask24, r.messages
	f.emit(p.d, r.route, &pkt)
}

// nak refuses the expected request, and ends the connection if the verdict does.
func (f *Fabric) nak(p *pair, v verdict) {
	code := map[uint32]byte{abi.IB_WC_REM_ACCESS_ERR: roce.NAKRemoteAccess, abi.IB_WC_REM_OP_ERR: roce.NAKRemoteOperation, abi.IB_WC_REM_INV_REQ_ERR: roce.NAKInvalidRequest}
	if c, ok := code[v.status]; ok {
		f.acknowledge(p, p.remote.expected, roce.SyndromeNAK|c)
	}
	if isReliable(p.qp) || v.own {
		p.dropRecv(v.status)
		p.qp.Break()
		p.end(f)
	}
}

// dropRecv completes the receive that an incomplete message has taken with an error.
func (p *pair) dropRecv(status uint32) {
	if r := p.remote; r.recv != nil {
		p.qp.Received(r.recv, &abi.IbUverbsWc{Status: status}, false)
		r.recv = nil
	}
}

// advance expects the next request, n packets later.
func (f *Fabric) advance(p *pair, pkt *roce.Packet, n uint32) {
	r := p.remote
	r.expected = (r.expected + n) & mask24
	if pkt.AckRequest {
		f.acknowledge(p, pkt.PSN, roce.SyndromeACK|roce.NoCredits)
	}
}

// receives takes a receive for the message, unless it has one. It reports false if there is none.
func (f *Fabric) receives(p *pair) bool {
	r := p.remote
	if r.recv == nil {
		r.recv = p.takeRecv()
	}
	if r.recv == nil {
		f.mistake(p, "a message arrived, but no receive was posted")
		r.silent = true
		f.acknowledge(p, r.expected, roce.SyndromeRNR|p.qp.Attr().MinRnrTimer&31)
	}
	return r.recv != nil
}

// send receives a packet of a SEND.
func (f *Fabric) send(p *pair, pkt *roce.Packet) {
	r := p.remote
	if !r.fitsIn(pkt, openSend) {
		f.nak(p, invalid)
		return
	}
	if !f.receives(p) {
		return
	}
	if begins(pkt.Op()) {
		r.at = 0
	}
	only := begins(pkt.Op()) && ends(pkt.Op())
	if long := r.at+len(pkt.Payload) > roomIn(r.recv.SGL); long || !(only && p.qp.Keep(r.recv, pkt.Payload)) && !scatterAt(p.qp, r.recv.SGL, r.at, pkt.Payload) {
		f.mistake(p, "a message of at least %d bytes does not fit in its receive", r.at+len(pkt.Payload))
		status, v := p.d.rules.(roceRules).unfit(long)
		p.qp.Received(r.recv, &abi.IbUverbsWc{Status: status}, false)
		r.recv = nil
		f.nak(p, v)
		return
	}
	r.open, r.at = openSend, r.at+len(pkt.Payload)
	if !ends(pkt.Op()) {
		f.advance(p, pkt, 1)
		return
	}
	wc := &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: uint32(r.at)}
	w := &fakeverbs.Work{Opcode: abi.IB_UVERBS_WR_SEND, Imm: pkt.Imm}
	switch pkt.Op() {
	case roce.SendLastImm, roce.SendOnlyImm:
		w.Opcode = abi.IB_UVERBS_WR_SEND_WITH_IMM
	case roce.SendLastInv, roce.SendOnlyInv:
		if !p.qp.Invalidate(pkt.Invalid) {
			f.mistake(p, "no key %#x to invalidate", pkt.Invalid)
			f.nak(p, invalid)
			return
		}
		wc.Ex, wc.WcFlags = pkt.Invalid, abi.IB_WC_WITH_INVALIDATE
	}
	f.finish(p, pkt, w, wc)
}

// finish completes a message, with the receive that it took, if it took one.
func (f *Fabric) finish(p *pair, pkt *roce.Packet, w *fakeverbs.Work, wc *abi.IbUverbsWc) {
	r := p.remote
	recv := r.recv
	r.open, r.recv, r.messages = openNone, nil, (r.messages+1)&mask24
	f.advance(p, pkt, 1)
	if recv == nil {
		return
	}
	if pkt.Solicited {
		w.Flags = abi.IB_SEND_SOLICITED
	}
	f.received(p, &packet{w: w}, recv, wc)
}

// write receives a packet of a WRITE.
func (f *Fabric) write(p *pair, pkt *roce.Packet) {
	r, first := p.remote, begins(pkt.Op())
	if !r.fitsIn(pkt, openWrite) {
		f.nak(p, invalid)
		return
	}
	if first {
		if p.qp.QPAccess()&abi.IB_UVERBS_ACCESS_REMOTE_WRITE == 0 {
			f.mistake(p, "the queue pair does not allow its peer to write")
			f.nak(p, invalid)
			return
		}
		r.target, r.left = fakeverbs.Work{RemoteAddr: pkt.VA, RKey: pkt.RKey}, pkt.Length
	}
	n := uint32(len(pkt.Payload))
	switch end := ends(pkt.Op()); {
	case end && n != r.left || !end && n >= r.left || r.left > longest:
		f.nak(p, invalid)
		return
	case r.left > 0 && !p.qp.RemoteOK(r.target.RKey, r.target.RemoteAddr, uint64(r.left), abi.IB_UVERBS_ACCESS_REMOTE_WRITE):
		f.mistake(p, "key %#x does not allow access to %d bytes at %#x", r.target.RKey, r.left, r.target.RemoteAddr)
		f.nak(p, refused)
		return
	}
	imm := pkt.Op() == roce.WriteLastImm || pkt.Op() == roce.WriteOnlyImm
	if imm && !f.receives(p) {
		return
	}
	if n > 0 && !place(p, &r.target, pkt.Payload) {
		f.nak(p, refused)
		return
	}
	if first {
		r.at = 0
	}
	r.open, r.at, r.left, r.target.RemoteAddr = openWrite, r.at+int(n), r.left-n, r.target.RemoteAddr+uint64(n)
	if !ends(pkt.Op()) {
		f.advance(p, pkt, 1)
		return
	}
	w := &fakeverbs.Work{Opcode: abi.IB_UVERBS_WR_RDMA_WRITE, Imm: pkt.Imm}
	if imm {
		w.Opcode = abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM
	}
	f.finish(p, pkt, w, &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV_RDMA_WITH_IMM, ByteLen: uint32(r.at)})
}

// admits reports whether the queue pair carries out a request for data, and refuses it if not.
func (f *Fabric) admits(p *pair, w *fakeverbs.Work, length uint64) bool {
	switch {
	case p.remote.open != openNone || !isReliable(p.qp) || length > longest:
		f.nak(p, invalid)
	case p.qp.QPAccess()&right(w) != right(w):
		f.mistake(p, "the queue pair does not allow its peer opcode %d", w.Opcode)
		f.nak(p, invalid)
	case !p.serves():
		f.mistake(p, "the queue pair answers no READs and atomics, because its MaxDestRDAtomic is 0")
		f.nak(p, invalid)
	case length > 0 && !p.qp.RemoteOK(w.RKey, w.RemoteAddr, length, right(w)):
		f.mistake(p, "key %#x does not allow access to %d bytes at %#x", w.RKey, length, w.RemoteAddr)
		f.nak(p, refused)
	case !aligned(w):
		f.mistake(p, "opcode %d at %#x, which is not a multiple of 8", w.Opcode, w.RemoteAddr)
		f.nak(p, invalid)
	default:
		return true
	}
	return false
}

// read answers a READ.
func (f *Fabric) read(p *pair, pkt *roce.Packet) {
	r := p.remote
	a := answer{psn: pkt.PSN, length: int(pkt.Length), w: fakeverbs.Work{Opcode: abi.IB_UVERBS_WR_RDMA_READ, RemoteAddr: pkt.VA, RKey: pkt.RKey}}
	if !f.admits(p, &a.w, uint64(pkt.Length)) {
		return
	}
	a.count = uint32(max(1, (a.length+r.mtu-1)/r.mtu))
	r.expected, r.messages = (r.expected+a.count)&mask24, (r.messages+1)&mask24
	r.remember(a)
	r.reading = &a
	f.continueRead(p)
}

func (r *responder) remember(a answer) {
	if len(r.answers) == mostAnswers {
		r.answers = slices.Delete(r.answers, 0, 1)
	}
	r.answers = append(r.answers, a)
}

// continueRead sends the next packets of an answer.
func (f *Fabric) continueRead(p *pair) {
	r := p.remote
	a := r.reading
	for range burst {
		at := a.sent * r.mtu
		data := make([]byte, min(r.mtu, a.length-at))
		addr := a.w.RemoteAddr + uint64(at)
		if len(data) > 0 {
			ok := p.qp.RemoteOK(a.w.RKey, addr, uint64(len(data)), abi.IB_UVERBS_ACCESS_REMOTE_READ)
			from, in := p.qp.RemoteMemory(a.w.RKey, addr)
			if !ok || from.Read(in, data) != nil {
				r.expected = a.psn + uint32(a.sent)
				f.nak(p, refused)
				return
			}
		}
		first, last := a.sent == 0, a.sent == int(a.count)-1
		var op byte = roce.ReadResponseMid
		switch {
		case first && last:
			op = roce.ReadResponseOnly
		case first:
			op = roce.ReadResponseFirst
		case last:
			op = roce.ReadResponseLast
		}
		f.respond(p, a.psn+uint32(a.sent), roce.Packet{Opcode: op, Syndrome: roce.SyndromeACK | roce.NoCredits, Payload: data})
		if a.sent++; last {
			r.reading = nil
			f.resumeRequests(p)
			return
		}
	}
	f.later(pause, func() {
		if p.remote == r && r.reading == a {
			f.continueRead(p)
		}
	})
}

// resumeRequests handles the requests that arrived during a READ, up to the next one.
func (f *Fabric) resumeRequests(p *pair) {
	r := p.remote
	waiting := r.backlog
	r.backlog = nil
	for i := range waiting {
		if p.remote != r {
			return
		}
		f.requested(p, &waiting[i])
	}
}

// atomic carries out an atomic operation.
func (f *Fabric) atomic(p *pair, pkt *roce.Packet) {
	r := p.remote
	w := fakeverbs.Work{Opcode: abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, RemoteAddr: pkt.VA, RKey: pkt.RKey, Compare: pkt.Swap}
	if pkt.Op() == roce.CompareSwap {
		w.Opcode, w.Compare, w.Swap = abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, pkt.Compare, pkt.Swap
	}
	const size = 8
	if !f.admits(p, &w, size) {
		return
	}
	data, ok := f.fetch(p, &packet{w: &w})
	if !ok {
		f.nak(p, refused)
		return
	}
	a := answer{psn: pkt.PSN, count: 1, w: w, original: binary.NativeEndian.Uint64(data)}
	r.expected, r.messages = (r.expected+1)&mask24, (r.messages+1)&mask24
	r.remember(a)
	f.answerAtomic(p, &a)
}

func (f *Fabric) answerAtomic(p *pair, a *answer) {
	f.respond(p, a.psn, roce.Packet{Opcode: roce.AtomicAcknowledge, Syndrome: roce.SyndromeACK | roce.NoCredits, Original: a.original})
}

// repeat answers a request that has arrived before. A READ reads again; an atomic operation has its first answer.
func (f *Fabric) repeat(p *pair, pkt *roce.Packet) {
	r := p.remote
	switch pkt.Op() {
	case roce.ReadRequest, roce.CompareSwap, roce.FetchAdd:
	default:
		f.acknowledge(p, r.expected-1, roce.SyndromeACK|roce.NoCredits)
		return
	}
	for i := range r.answers {
		a := &r.answers[i]
		skipped := distance(pkt.PSN, a.psn)
		switch {
		case skipped < 0 || skipped >= int(a.count):
		case pkt.Op() != roce.ReadRequest:
			if right(&a.w) == abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC {
				f.answerAtomic(p, a)
			}
			return
		case right(&a.w) == abi.IB_UVERBS_ACCESS_REMOTE_READ && pkt.RKey == a.w.RKey && pkt.VA == a.w.RemoteAddr+uint64(skipped*r.mtu) &&
			int64(pkt.Length) <= int64(a.length-skipped*r.mtu):
			again := answer{psn: pkt.PSN, w: a.w, length: int(pkt.Length)}
			again.w.RemoteAddr = pkt.VA
			again.count = uint32(max(1, (again.length+r.mtu-1)/r.mtu))
			r.reading = &again
			f.continueRead(p)
			return
		}
	}
}

// scatterAt copies b into the memory of an SGL, from an offset on. It reports whether its keys are valid and it has
// room.
func scatterAt(qp *fakeverbs.QP, sgl []fakeverbs.SGE, offset int, b []byte) bool {
	for _, s := range sgl {
		if offset >= int(s.Length) {
			offset -= int(s.Length)
			continue
		}
		s.Addr, s.Length = s.Addr+uint64(offset), s.Length-uint32(offset)
		offset = 0
		n := min(len(b), int(s.Length))
		if n == 0 {
			break
		}
		if s.Length = uint32(n); !qp.WriteSGE(s, b[:n]) {
			return false
		}
		b = b[n:]
	}
	return len(b) == 0
}
