package uverbs

import (
	"runtime"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// DataOrder tells of what arrives through this QP, by OpSend or OpRDMAWrite of the
// peer or OpRDMARead of its own, in memory without AccessRelaxedOrdering. It is 0
// where the provider does not say, as of siw and rxe, and on processors other than
// x86.
//
// C: ibv_query_qp_data_in_order with IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS
func (qp *QP) DataOrder(op verbs.Opcode) verbs.DataOrder {
	ring, ok := qp.ring.(driver.DataOrderer)
	if !ok || runtime.GOARCH != "amd64" {
		return 0
	}
	order := ring.DataOrder(op)
	if order&verbs.DataOrderWholeMessage != 0 {
		order |= verbs.DataOrderAligned128
	}
	return order
}
