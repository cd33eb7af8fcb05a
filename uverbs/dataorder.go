package uverbs

import (
	"runtime"

	"github.com/goverbs/goverbs/uverbs/driver"
)

// DataOrder tells how far the data of one message becomes visible in memory in order.
//
// C: enum ibv_query_qp_data_in_order_caps
type DataOrder = driver.DataOrder

// Documented at [driver.DataOrder].
const (
	DataOrderWholeMessage DataOrder = driver.DataOrderWholeMessage
	DataOrderAligned128   DataOrder = driver.DataOrderAligned128
)

// DataOrder tells of what arrives through this QP, by OpSend or OpRDMAWrite of the
// peer or OpRDMARead of its own, in memory without AccessRelaxedOrdering. It is 0
// where the provider does not say, as of siw and rxe, and on processors other than
// x86.
//
// C: ibv_query_qp_data_in_order with IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS
func (qp *QP) DataOrder(op Opcode) DataOrder {
	ring, ok := qp.ring.(driver.DataOrderer)
	if !ok || runtime.GOARCH != "amd64" {
		return 0
	}
	order := ring.DataOrder(op)
	if order&DataOrderWholeMessage != 0 {
		order |= DataOrderAligned128
	}
	return order
}
