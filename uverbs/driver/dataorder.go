package driver

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
