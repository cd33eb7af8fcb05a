package rdmatest

import (
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
)

// mlx5Rules are the rules of a network card on RoCE. They are those of rxe, but mistakes
// have the statuses of the InfiniBand specification.
type mlx5Rules struct{ rxeRules }

func (mlx5Rules) check(f *Fabric, p *pair, k *packet) uint32 {
	switch {
	case k.w.Opcode == fakeverbs.NOP:
		return abi.IB_WC_SUCCESS
	case k.w.Opcode == fakeverbs.NoOpcode, !carries(p.qp.Type, k.w) && !isLocal(k.w):
		f.mistake(p, "a queue pair of this type has no operation %d", k.w.Opcode)
		return abi.IB_WC_LOC_QP_OP_ERR // the status of the InfiniBand specification
	case k.w.Opcode == abi.IB_UVERBS_WR_BIND_MW:
		if !p.qp.Bind(&k.w.Bind) {
			f.mistake(p, "invalid memory window bind")
			return abi.IB_WC_MW_BIND_ERR
		}
		return abi.IB_WC_SUCCESS
	case fetches(k.w) && !mayWrite(p.qp, k.w.SGL):
		f.mistake(p, "the local memory for the data read is not writable")
		return abi.IB_WC_LOC_PROT_ERR
	}
	if status := (rxeRules{}).check(f, p, k); status != abi.IB_WC_SUCCESS {
		return abi.IB_WC_LOC_PROT_ERR
	}
	return abi.IB_WC_SUCCESS
}

// deliver implements [rules]. What follows a failed request of the same stream does not leave: it is flushed.
func (mlx5Rules) deliver(f *Fabric, p *pair, k *packet) (status uint32, again time.Duration) {
	if isDC(p.qp) {
		for _, before := range p.inFlight[:p.arrived] {
			if before.w.Stream == k.w.Stream && before.status != abi.IB_WC_SUCCESS {
				return abi.IB_WC_WR_FLUSH_ERR, 0
			}
		}
		if mlx5.QPOf(p.qp).StreamFailed(k.w.Stream) {
			return abi.IB_WC_WR_FLUSH_ERR, 0
		}
	}
	return rxeRules{}.deliver(f, p, k)
}

// goesOn reports whether a queue pair can still send after a request has failed.
func (p *pair) goesOn() bool {
	q := mlx5.QPOf(p.qp)
	return q != nil && q.HasStreams() && p.qp.State() == abi.IB_QPS_RTS
}

func (mlx5Rules) unfit(long bool) (recv uint32, v verdict) {
	if long {
		return abi.IB_WC_LOC_LEN_ERR, verdict{status: abi.IB_WC_REM_INV_REQ_ERR, ends: true, own: true}
	}
	return abi.IB_WC_LOC_PROT_ERR, broken
}

// target returns the DCT that a request of a DCI names, or nil if it can't be reached or does not accept the request:
// with another key, to another of its device's GIDs, or in packets that are longer than its own. What hardware does
// in these cases is not known.
func (f *Fabric) target(p *pair, k *packet) *pair {
	to := &k.w.To
	if to.AH == nil {
		return nil
	}
	d := f.at(p.d, to.AH.Attr.Grh.SgidIndex, to.AH.Attr.Grh.Dgid, to.AH.Attr.Dlid)
	if d == nil || !f.hasPath(p.d, d) {
		return nil
	}
	qp := d.verbs.QP(to.QPN)
	if qp == nil {
		return nil
	}
	q := mlx5.QPOf(qp)
	if q == nil || !q.IsTarget() || q.Key() != to.Key {
		return nil
	}
	a, own := qp.Attr(), p.qp.Attr().PathMtu
	switch {
	case !d.verbs.IsInfiniBand() && (!d.hasGID(int(a.Dest.SgidIndex)) || d.gids[a.Dest.SgidIndex] != to.AH.Attr.Grh.Dgid):
		return nil
	case own > a.PathMtu && len(k.data) > 128<<a.PathMtu:
		return nil
	}
	return f.pairOf(qp)
}
