package rdmatest

import (
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// rxeRules are the rules of soft RoCE in Linux 6.12.
type rxeRules struct{}

// check implements [rules]. After a local mistake the send is flushed and the queue pair fails.
func (rxeRules) check(f *Fabric, p *pair, k *packet) uint32 {
	ok := k.w.Opcode != fakeverbs.NoOpcode
	if !carries(p.qp.Type, k.w) {
		f.mistake(p, "a queue pair of this type has no operation %d", k.w.Opcode)
		return abi.IB_WC_WR_FLUSH_ERR
	}
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
		f.mistake(p, "a send uses local memory outside its PD, or an invalid local key")
		return abi.IB_WC_WR_FLUSH_ERR
	}
	return abi.IB_WC_SUCCESS
}

// carries reports whether queue pairs of a type have an operation.
func carries(typ uint64, w *fakeverbs.Work) bool {
	switch w.Opcode {
	case abi.IB_UVERBS_WR_SEND, abi.IB_UVERBS_WR_SEND_WITH_IMM, abi.IB_UVERBS_WR_TSO, fakeverbs.NoOpcode:
		return true
	case abi.IB_UVERBS_WR_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, abi.IB_UVERBS_WR_BIND_MW:
		return typ != abi.IB_UVERBS_QPT_UD
	}
	return typ == abi.IB_UVERBS_QPT_RC || typ == abi.IB_UVERBS_QPT_XRC_INI || typ == abi.IB_UVERBS_QPT_DRIVER
}

func (rxeRules) unfit(bool) (recv uint32, v verdict) { return abi.IB_WC_LOC_QP_OP_ERR, broken }

func (rxeRules) acknowledges(qp *fakeverbs.QP, _ *fakeverbs.Work) bool {
	return isReliable(qp)
}

func (rxeRules) blocked(*pair) bool { return false }

func (rxeRules) ended(*Fabric, *pair) {}

// deliver implements [rules]. It drops a message that the peer of an unreliable connection does
// not accept, without an error.
func (rxeRules) deliver(f *Fabric, p *pair, k *packet) (status uint32, again time.Duration) {
	if k.givenUp {
		return abi.IB_WC_RETRY_EXC_ERR, 0
	}
	var to *pair
	if isDC(p.qp) {
		to = f.target(p, k)
	} else {
		to = f.connected(p)
	}
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
	if !isDC(p.qp) && p.unlikeMTU(to, k) {
		f.mistake(to, "the peer's path MTU is another one")
		if reliable {
			if right(k.w) == 0 {
				if r := to.takeRecv(); r != nil {
					to.qp.Received(r, &abi.IbUverbsWc{Status: abi.IB_WC_REM_INV_REQ_ERR}, false)
				}
			}
			to.qp.Break()
			to.end(f)
		}
		return abi.IB_WC_REM_INV_REQ_ERR, 0
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
			f.mistake(to, "a message arrived, but no receive was posted")
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
