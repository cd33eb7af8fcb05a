package rdmatest

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/qpstate"
)

// mtu is the maximum length of a datagram.
const mtu = 1024

// isReliable reports whether the queue pair retransmits until the peer answers.
func isReliable(qp *fakeverbs.QP) bool {
	return qp.Type == abi.IB_UVERBS_QPT_RC || qp.Type == abi.IB_UVERBS_QPT_XRC_INI || isDC(qp)
}

// isDC reports whether the queue pair is one of the dynamically connected transport.
func isDC(qp *fakeverbs.QP) bool { return qp.Type == abi.IB_UVERBS_QPT_DRIVER }

// dropped reports whether a message is a WRITE_WITH_IMM over an unreliable connection without the
// right to write. Such a message takes no receive from a queue pair's own queue.
func dropped(to *pair, k *packet) bool {
	return to.qp.Type == abi.IB_UVERBS_QPT_UC && right(k.w) != 0 && !to.qp.HasSRQ() && (to.qp.QPAccess()&right(k.w) == 0 || !isOpen(to, k))
}

// unanswered makes a packet wait for the peer after the first try and after each retry. The queue
// pair's attributes set the timeout and the number of retries. With a retry count of 7, some devices
// retry forever.
func (p *pair) unanswered(k *packet) (status uint32, again time.Duration) {
	a := p.qp.Attr()
	if a.Timeout == 0 {
		return 0, forever
	}
	if k.tries++; k.tries > p.retries(&a) {
		if p.qp.Migrate() {
			k.tries = 0
		} else {
			k.givenUp = true
		}
	}
	return 0, answerTime(&a)
}

// retries returns how often an unanswered packet is sent again.
func (p *pair) retries(a *abi.IbUverbsModifyQp) int {
	const always = 7
	if p.d.info.softRoCE && a.RetryCnt == always {
		return math.MaxInt - 1
	}
	return int(a.RetryCnt)
}

func answerTime(a *abi.IbUverbsModifyQp) time.Duration {
	return qpstate.AckTimeout(min(a.Timeout, 31))
}

// forever is longer than any test.
const forever = 1 << 40 * time.Microsecond

// notReady makes a packet wait because the peer has no receive. The peer's queue pair sets the
// time, and the sender's the number of retries. 7 means no limit. With soft RoCE, the sender's
// acknowledgement timeout may expire meanwhile, which counts as an unanswered try. It is not started again
// before the packet is sent again.
func (p *pair) notReady(to *pair, k *packet) (status uint32, again time.Duration) {
	const always = 7
	a := p.qp.Attr()
	if a.RnrRetry != always {
		if k.rnr++; k.rnr > int(a.RnrRetry) {
			return abi.IB_WC_RNR_RETRY_EXC_ERR, 0
		}
	}
	again = qpstate.RNRTimer(to.qp.Attr().MinRnrTimer)
	if !p.d.info.softRoCE || a.Timeout == 0 {
		return 0, again
	}
	timeout := answerTime(&a)
	switch {
	case again < timeout:
	case k.tries < p.retries(&a):
		k.tries++
	default:
		k.givenUp = true
		return 0, timeout
	}
	return 0, again
}

// unlikeMTU reports whether the peer refuses a SEND or WRITE because the queue pairs have different path MTUs, and so
// expect packets of different lengths.
func (p *pair) unlikeMTU(to *pair, k *packet) bool {
	if len(k.data) <= 256 { // a packet of any MTU has room for it
		return false
	}
	own, other := p.qp.Attr().PathMtu, to.qp.Attr().PathMtu
	return own != other && len(k.data) > 128<<min(own, other)
}

// connected returns the peer that the queue pair's address names, or nil if it can't be reached
// or does not accept packets.
func (f *Fabric) connected(p *pair) *pair {
	if f.route.from == p {
		return f.route.to
	}
	to := f.findConnected(p)
	if to != nil && p.qp.Kernel().IsHeld() {
		f.hold(to.qp)
		f.route = route{p, to}
	}
	return to
}

func (f *Fabric) findConnected(p *pair) *pair {
	a := p.qp.Attr()
	d := f.at(p.d, a.Dest.SgidIndex, a.Dest.Dgid, a.Dest.Dlid)
	if d == nil || !f.hasPath(p.d, d) {
		return nil
	}
	qp := d.verbs.QP(a.DestQpNum)
	if qp == nil || !fit(p.qp.Type, qp.Type) || !p.inSequence(a, qp.Attr()) {
		return nil
	}
	if s := qp.State(); s < abi.IB_QPS_RTR || s == abi.IB_QPS_ERR {
		return nil
	}
	to := f.pairOf(qp)
	if to != nil && p.d.verbs.IsInfiniBand() && !f.migrates(p, to) {
		return nil
	}
	return to
}

// inSequence reports whether the receiver expects the sender's packets. It does not if its
// queue pair only has the same number as a former peer of the sender. An unreliable
// connection continues with the first packet of any message.
func (p *pair) inSequence(from, to abi.IbUverbsModifyQp) bool {
	const bits = 1<<24 - 1
	return p.qp.Type == abi.IB_UVERBS_QPT_UC || from.SqPsn&bits == to.RqPsn&bits
}

// fit reports whether queue pairs of two types can be connected.
func fit(from, to uint64) bool {
	if from == abi.IB_UVERBS_QPT_XRC_INI {
		return to == abi.IB_UVERBS_QPT_XRC_TGT
	}
	return from == to && from != abi.IB_UVERBS_QPT_XRC_TGT
}

// through returns the pair of a target queue pair for one SRQ of its domain, or nil.
func (p *pair) through(srqn uint32) *pair {
	if qp := p.qp.Through(srqn); qp != nil {
		return &pair{d: p.d, qp: qp}
	}
	return nil
}

// takeRecv takes a receive, unless the test stalls the device's receives.
func (p *pair) takeRecv() *fakeverbs.Recv {
	if p.d.stalled {
		return nil
	}
	r, _ := p.qp.TakeRecv()
	return r
}

// verdict is the result of a message at the peer over RoCE.
type verdict struct {
	status uint32 // status of the send
	ends   bool   // the peer's queue pair fails
	own    bool   // it fails because of its own receive
}

var (
	fine    = verdict{}
	refused = verdict{status: abi.IB_WC_REM_ACCESS_ERR, ends: true}
	invalid = verdict{status: abi.IB_WC_REM_INV_REQ_ERR, ends: true}
	broken  = verdict{status: abi.IB_WC_REM_OP_ERR, ends: true, own: true}
)

// serve carries out a message at the peer; r is the receive that it takes, if it takes one.
func (f *Fabric) serve(p, to *pair, k *packet, r *fakeverbs.Recv) verdict {
	switch {
	case right(k.w) == 0:
		return f.message(p, to, k, r)
	case to.qp.QPAccess()&right(k.w) != right(k.w):
		f.mistake(to, "the queue pair does not allow its peer opcode %d", k.w.Opcode)
		return invalid
	case usesDepth(k.w) && to.d.info.softRoCE && !to.serves():
		f.mistake(to, "the queue pair answers no READs and atomics, because its MaxDestRDAtomic is 0")
		return invalid
	case !isOpen(to, k):
		return f.deny(to, k, r)
	case !aligned(k.w):
		f.mistake(to, "opcode %d at %#x, which is not a multiple of 8", k.w.Opcode, k.w.RemoteAddr)
		return invalid
	case p.qp.FetchFrom(to.qp, k.w):
	case fetches(k.w):
		data, ok := f.fetch(to, k)
		if !ok {
			return f.deny(to, k, r)
		}
		if !p.qp.KeepFetched(k.w, data) && !scatter(p.qp, k.w.SGL, data) {
			f.mistake(p, "the local memory for the data read is not writable")
			return verdict{status: abi.IB_WC_LOC_PROT_ERR}
		}
	case len(k.data) > 0 && !place(to, k.w, k.data):
		return f.deny(to, k, r)
	}
	if r != nil {
		f.received(to, k, r, &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV_RDMA_WITH_IMM, ByteLen: uint32(len(k.data))})
	}
	return fine
}

// serves reports whether the queue pair answers READs and atomics.
func (p *pair) serves() bool {
	_, n := p.qp.Depths()
	return n > 0
}

// deny refuses a message access to the peer's memory; r is the receive that it took, or nil.
func (f *Fabric) deny(to *pair, k *packet, r *fakeverbs.Recv) verdict {
	f.mistake(to, "key %#x does not allow access to %d bytes at %#x", k.w.RKey, reach(k), k.w.RemoteAddr)
	if r != nil {
		to.qp.Received(r, &abi.IbUverbsWc{Status: abi.IB_WC_REM_ACCESS_ERR}, false)
	}
	return refused
}

// message carries out a SEND at the peer.
func (f *Fabric) message(p, to *pair, k *packet, r *fakeverbs.Recv) verdict {
	if long := len(k.data) > roomIn(r.SGL); long || !to.qp.Keep(r, k.data) && !scatter(to.qp, r.SGL, k.data) {
		f.mistake(to, "a message of %d bytes does not fit in its receive", len(k.data))
		status, v := to.d.rules.(roceRules).unfit(long)
		to.qp.Received(r, &abi.IbUverbsWc{Status: status}, false)
		if !isReliable(p.qp) {
			v.status = abi.IB_WC_SUCCESS
		}
		return v
	}
	wc := &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: uint32(len(k.data))}
	if k.w.Opcode == abi.IB_UVERBS_WR_SEND_WITH_INV {
		if !to.qp.Invalidate(k.w.Imm) {
			f.mistake(to, "no key %#x to invalidate", k.w.Imm)
			to.qp.Received(r, &abi.IbUverbsWc{Status: abi.IB_WC_REM_INV_REQ_ERR}, false)
			return verdict{ends: true} // the message has been acknowledged already
		}
		wc.Ex, wc.WcFlags = k.w.Imm, abi.IB_WC_WITH_INVALIDATE
	}
	f.received(to, k, r, wc)
	return fine
}

// received completes a receive, unless the test makes it fail.
func (f *Fabric) received(to *pair, k *packet, r *fakeverbs.Recv, wc *abi.IbUverbsWc) {
	if hasImm(k.w) {
		wc.Ex, wc.WcFlags = k.w.Imm, wc.WcFlags|abi.IB_WC_WITH_IMM
	}
	if status, ok := to.d.faults.strikeRecv(); ok {
		wc.Status = status
	}
	wc.PortNum = 1
	if ah := k.w.To.AH; ah == nil || ah.Attr.IsGlobal != 0 {
		wc.WcFlags |= abi.IB_WC_GRH
	}
	to.qp.Received(r, wc, k.w.Flags&abi.IB_SEND_SOLICITED != 0)
	if wc.Status != abi.IB_WC_SUCCESS {
		to.qp.Break()
		to.end(f)
	}
}

// reach returns how many bytes of the peer's memory a message accesses.
func reach(k *packet) uint64 {
	switch k.w.Opcode {
	case abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_WRITE:
		return 8
	case abi.IB_UVERBS_WR_FLUSH:
		return uint64(k.w.Flush)
	}
	return uint64(k.w.Len())
}

// aligned reports whether the address of an atomic operation is a multiple of 8. For other
// operations it returns true.
func aligned(w *fakeverbs.Work) bool {
	switch w.Opcode {
	case abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_WRITE:
		return w.RemoteAddr%8 == 0
	}
	return true
}

func isOpen(to *pair, k *packet) bool {
	n := reach(k)
	return n == 0 && k.w.Opcode != abi.IB_UVERBS_WR_FLUSH || to.qp.RemoteOK(k.w.RKey, k.w.RemoteAddr, n, right(k.w))
}

// fetch reads the memory that a message names, and carries out atomic operations. It reports whether the memory is
// there: the program may have unmapped it.
func (f *Fabric) fetch(to *pair, k *packet) (data []byte, ok bool) {
	from, addr := to.qp.RemoteMemory(k.w.RKey, k.w.RemoteAddr)
	if right(k.w) == abi.IB_UVERBS_ACCESS_REMOTE_READ {
		b := k.room(int(k.w.Len()))
		return b, len(b) == 0 || from.Read(addr, b) == nil
	}
	old, err := from.Load64(addr)
	switch {
	case err != nil:
	case k.w.Opcode == abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		err = from.Store64(addr, old+k.w.Compare)
	case old == k.w.Compare:
		err = from.Store64(addr, k.w.Swap)
	}
	return binary.NativeEndian.AppendUint64(nil, old), err == nil
}
