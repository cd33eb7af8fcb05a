package uverbs

import "runtime"

// DataOrder tells how far the data of one message becomes visible in memory in
// order, so that a program may wait for its last byte instead of a completion. The
// values combine with |; 0 promises nothing.
//
// C: enum ibv_query_qp_data_in_order_caps
type DataOrder uint32

const (
	DataOrderWholeMessage DataOrder = 1 << 0
	// DataOrderAligned128: within each aligned block of 128 bytes.
	DataOrderAligned128 DataOrder = 1 << 1
)

// String names the bits.
func (o DataOrder) String() string {
	return bitNames(uint64(o), map[int]string{0: "WholeMessage", 1: "Aligned128"})
}

// DataOrderer is a QPRing that knows the order in which its device writes.
type DataOrderer interface {
	DataOrder(op Opcode) DataOrder
}

// DataOrder tells of what arrives through this QP, by OpSend or OpRDMAWrite of the
// peer or OpRDMARead of its own, in memory without AccessRelaxedOrdering. It is 0
// where the provider does not say, as of siw and rxe, and on processors other than
// x86.
//
// C: ibv_query_qp_data_in_order with IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS
func (qp *QP) DataOrder(op Opcode) DataOrder {
	ring, ok := qp.ring.(DataOrderer)
	if !ok || runtime.GOARCH != "amd64" {
		return 0
	}
	order := ring.DataOrder(op)
	if order&DataOrderWholeMessage != 0 {
		order |= DataOrderAligned128
	}
	return order
}
