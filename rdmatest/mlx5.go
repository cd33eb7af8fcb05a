package rdmatest

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// mlx5Rules are the rules of a network card on RoCE. They are those of rxe, but mistakes
// have the statuses of the InfiniBand specification.
type mlx5Rules struct{ rxeRules }

func (mlx5Rules) check(f *Fabric, p *pair, k *packet) uint32 {
	switch {
	case k.w.Opcode == fakeverbs.NoOpcode:
		return abi.IB_WC_LOC_QP_OP_ERR
	case k.w.Opcode == abi.IB_UVERBS_WR_BIND_MW:
		if !p.qp.Bind(&k.w.Bind) {
			f.mistake(p, "invalid memory window bind")
			return abi.IB_WC_MW_BIND_ERR
		}
		return abi.IB_WC_SUCCESS
	case fetches(k.w) && !mayUse(p.qp, k.w.SGL, true):
		f.mistake(p, "the local memory for the data read is not writable")
		return abi.IB_WC_LOC_PROT_ERR
	}
	if status := (rxeRules{}).check(f, p, k); status != abi.IB_WC_SUCCESS {
		return abi.IB_WC_LOC_PROT_ERR
	}
	return abi.IB_WC_SUCCESS
}

func (mlx5Rules) unfit(long bool) (recv uint32, v verdict) {
	if long {
		return abi.IB_WC_LOC_LEN_ERR, verdict{status: abi.IB_WC_REM_INV_REQ_ERR, ends: true, own: true}
	}
	return abi.IB_WC_LOC_PROT_ERR, broken
}
