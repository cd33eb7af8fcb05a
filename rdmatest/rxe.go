package rdmatest

import (
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// rxeRules are those of soft RoCE, as of Linux 6.12.
type rxeRules struct{}

// mtu is how long a datagram may be.
const mtu = 1024

// check: what is wrong here flushes the send, and ends the queue pair.
func (rxeRules) check(f *Fabric, p *pair, k *packet) uint32 {
	ok := k.w.Opcode != fakeverbs.NoOpcode
	switch k.w.Opcode {
	case abi.IB_UVERBS_WR_LOCAL_INV:
		ok = p.qp.Invalidate(k.w.Imm)
	case abi.IB_UVERBS_WR_BIND_MW:
		ok = p.qp.Bind(&k.w.Bind)
	default:
		if ok && !fetches(k.w) {
			ok = gather(p.qp, k)
		}
	}
	if !ok {
		f.mistake(p, "a send names local memory or a key that is not its own")
		return abi.IB_WC_WR_FLUSH_ERR
	}
	return abi.IB_WC_SUCCESS
}

func (rxeRules) unfit(bool) (recv uint32, v verdict) { return abi.IB_WC_LOC_QP_OP_ERR, broken }

func (rxeRules) acknowledges(qp *fakeverbs.QP, _ *fakeverbs.Work) bool {
	return isReliable(qp)
}

// isReliable tells connections that send again until they are answered.
func isReliable(qp *fakeverbs.QP) bool {
	return qp.Type == abi.IB_UVERBS_QPT_RC || qp.Type == abi.IB_UVERBS_QPT_XRC_INI
}

func (rxeRules) blocked(*pair) bool { return false }

func (rxeRules) ended(*Fabric, *pair) {}

// deliver: an unreliable connection loses what the peer does not take, without a word.
func (rxeRules) deliver(f *Fabric, p *pair, k *packet) (status uint32, again time.Duration) {
	if k.givenUp {
		return abi.IB_WC_RETRY_EXC_ERR, 0
	}
	to := f.connected(p)
	reliable := isReliable(p.qp)
	if to == nil || f.loses() {
		if !reliable {
			return abi.IB_WC_SUCCESS, 0
		}
		return p.unanswered(k)
	}
	if k.cut >= 0 {
		f.cut(p, to, k)
		return 0, 0
	}
	if to.qp.Type == abi.IB_UVERBS_QPT_XRC_TGT {
		if to = to.through(k.w.SRQN); to == nil {
			f.mistake(p, "the peer's domain has no SRQ %d", k.w.SRQN)
			return abi.IB_WC_REM_INV_REQ_ERR, 0
		}
	}
	var r *fakeverbs.Recv
	if takes(k.w) && !dropped(to, k) {
		if r = to.takeRecv(); r == nil {
			f.mistake(to, "a message came, and no receive was posted")
			if !reliable {
				return abi.IB_WC_SUCCESS, 0
			}
			return p.notReady(to, k)
		}
	}
	v := f.serve(p, to, k, r)
	switch {
	case v.ends && (reliable || v.own):
		to.qp.Break()
		to.end(f)
	}
	return v.status, 0
}

// dropped tells of a WRITE_WITH_IMM over an unreliable connection that may not be, which takes no
// receive from a queue pair's own queue.
func dropped(to *pair, k *packet) bool {
	return to.qp.Type == abi.IB_UVERBS_QPT_UC && right(k.w) != 0 && !to.qp.HasSRQ() && (to.qp.QPAccess()&right(k.w) == 0 || !isOpen(to, k))
}

// unanswered waits for the peer as long and as often as the queue pair says: once behind the first
// packet, and once behind each that is sent again. rxe sends again for ever if that is 7 times.
func (p *pair) unanswered(k *packet) (status uint32, again time.Duration) {
	a := p.qp.Attr()
	if a.Timeout == 0 {
		return 0, forever
	}
	const always = 7
	if k.tries++; k.tries > int(a.RetryCnt) && (p.d.kind != RXE || a.RetryCnt != always) {
		k.givenUp = true
	}
	return 0, 4096 * time.Nanosecond << min(a.Timeout, 31)
}

// forever is longer than any test.
const forever = 1 << 40 * time.Microsecond

// notReady waits as long as the peer says, as often as the queue pair does. 7 is always.
func (p *pair) notReady(to *pair, k *packet) (status uint32, again time.Duration) {
	const always = 7
	if n := p.qp.Attr().RnrRetry; n != always {
		if k.rnr++; k.rnr > int(n) {
			return abi.IB_WC_RNR_RETRY_EXC_ERR, 0
		}
	}
	return 0, rnrTimer(to.qp.Attr().MinRnrTimer)
}

// rnrTimer is the time that a number stands for: table 45 of the InfiniBand specification.
func rnrTimer(n uint8) time.Duration {
	const unit = 10 * time.Microsecond
	units := [32]int{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144,
		8192, 12288, 16384, 24576, 32768, 49152}
	return time.Duration(units[n&31]) * unit
}

// connected finds the peer that the queue pair's address names, if it can be reached and
// takes packets.
func (f *Fabric) connected(p *pair) *pair {
	a := p.qp.Attr()
	d := f.at(p.d, a.Dest.Dgid, a.Dest.Dlid)
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
	return f.pairOf(qp)
}

// inSequence tells whether the receiver expects the sender's packets, which it does not if
// its queue pair has the number of one that the sender was connected to before. An
// unreliable connection goes on with any first packet of a message.
func (p *pair) inSequence(from, to abi.IbUverbsModifyQp) bool {
	const bits = 1<<24 - 1
	return p.qp.Type == abi.IB_UVERBS_QPT_UC || from.SqPsn&bits == to.RqPsn&bits
}

// fit tells which types of queue pairs are connected to each other.
func fit(from, to uint64) bool {
	if from == abi.IB_UVERBS_QPT_XRC_INI {
		return to == abi.IB_UVERBS_QPT_XRC_TGT
	}
	return from == to && from != abi.IB_UVERBS_QPT_XRC_TGT
}

// through is a target queue pair as an SRQ of its domain sees it, or nil.
func (p *pair) through(srqn uint32) *pair {
	if qp := p.qp.Through(srqn); qp != nil {
		return &pair{d: p.d, qp: qp}
	}
	return nil
}

// takeRecv takes a receive, unless the test has the device find none.
func (p *pair) takeRecv() *fakeverbs.Recv {
	if p.d.stalled {
		return nil
	}
	r, _ := p.qp.TakeRecv()
	return r
}
