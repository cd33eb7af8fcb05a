package rdmatest

import (
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// rules are what a kind of device makes of sends. Statuses are those of completions.
type rules interface {
	// check gathers what a send sends, carries out what needs no peer, and says what is
	// wrong with it at this end.
	check(f *Fabric, p *pair, k *packet) (status uint32)
	// acknowledges tells that a send is done when the peer has answered, and not when
	// it has left.
	acknowledges(qp *fakeverbs.QP, w *fakeverbs.Work) bool
	// blocked tells that the network keeps what is on its way.
	blocked(p *pair) bool
	// deliver has the peer take a send. It is tried again after a while, if that is not 0.
	deliver(f *Fabric, p *pair, k *packet) (status uint32, again time.Duration)
	// ended is told that the queue pair is in no state to send any more.
	ended(f *Fabric, p *pair)
}

// roce are rules of devices over RoCE.
type roce interface {
	// unfit is what becomes of a SEND and the receive that it took: it is too long for that,
	// or may not be written there.
	unfit(long bool) (recv uint32, v verdict)
}

// isLocal tells that a send needs no peer.
func isLocal(w *fakeverbs.Work) bool {
	return w.Opcode == abi.IB_UVERBS_WR_LOCAL_INV || w.Opcode == abi.IB_UVERBS_WR_BIND_MW || w.Opcode == fakeverbs.NoOpcode
}

// right is what a send needs at the peer; 0 is a receive.
func right(w *fakeverbs.Work) uint32 {
	switch w.Opcode {
	case abi.IB_UVERBS_WR_RDMA_READ, abi.IB_UVERBS_WR_RDMA_READ_WITH_INV:
		return abi.IB_UVERBS_ACCESS_REMOTE_READ
	case abi.IB_UVERBS_WR_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, abi.IB_UVERBS_WR_ATOMIC_WRITE:
		return abi.IB_UVERBS_ACCESS_REMOTE_WRITE
	case abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP:
		return abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
	case abi.IB_UVERBS_WR_FLUSH:
		return abi.IB_UVERBS_ACCESS_FLUSH_GLOBAL
	}
	return 0
}

// fetches tells that a send brings data back.
func fetches(w *fakeverbs.Work) bool {
	r := right(w)
	return r == abi.IB_UVERBS_ACCESS_REMOTE_READ || r == abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
}

func hasImm(w *fakeverbs.Work) bool {
	return w.Opcode == abi.IB_UVERBS_WR_SEND_WITH_IMM || w.Opcode == abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM
}

// takes tells that a send takes a receive of the peer's.
func takes(w *fakeverbs.Work) bool { return right(w) == 0 || hasImm(w) }
