package fakeverbs

import "github.com/goverbs/goverbs/internal/abi"

type move struct{ from, to uint8 }

// need is what a transition must have, and may have, for RC, UC and UD.
type need struct{ must, may [3]uint32 }

const (
	first = abi.IB_QP_PKEY_INDEX | abi.IB_QP_PORT
	path  = abi.IB_QP_AV | abi.IB_QP_PATH_MTU | abi.IB_QP_DEST_QPN | abi.IB_QP_RQ_PSN
	retry = abi.IB_QP_TIMEOUT | abi.IB_QP_RETRY_CNT | abi.IB_QP_RNR_RETRY | abi.IB_QP_MAX_QP_RD_ATOMIC
	later = abi.IB_QP_ALT_PATH | abi.IB_QP_ACCESS_FLAGS | abi.IB_QP_PKEY_INDEX
	live  = abi.IB_QP_CUR_STATE | abi.IB_QP_ALT_PATH | abi.IB_QP_ACCESS_FLAGS | abi.IB_QP_PATH_MIG_STATE
	keyed = abi.IB_QP_CUR_STATE | abi.IB_QP_QKEY
	calm  = abi.IB_QP_AV | later | abi.IB_QP_PATH_MIG_STATE
)

// moves is the kernel's qp_state_table, without the moves to RESET and ERR.
var moves = map[move]need{
	{abi.IB_QPS_RESET, abi.IB_QPS_INIT}: {must: [3]uint32{first | abi.IB_QP_ACCESS_FLAGS, first | abi.IB_QP_ACCESS_FLAGS, first | abi.IB_QP_QKEY}},
	{abi.IB_QPS_INIT, abi.IB_QPS_INIT}:  {may: [3]uint32{first | abi.IB_QP_ACCESS_FLAGS, first | abi.IB_QP_ACCESS_FLAGS, first | abi.IB_QP_QKEY}},
	{abi.IB_QPS_INIT, abi.IB_QPS_RTR}: {must: [3]uint32{path | abi.IB_QP_MAX_DEST_RD_ATOMIC | abi.IB_QP_MIN_RNR_TIMER, path, 0},
		may: [3]uint32{later, later, abi.IB_QP_PKEY_INDEX | abi.IB_QP_QKEY}},
	{abi.IB_QPS_RTR, abi.IB_QPS_RTS}: {must: [3]uint32{retry | abi.IB_QP_SQ_PSN, abi.IB_QP_SQ_PSN, abi.IB_QP_SQ_PSN},
		may: [3]uint32{live | abi.IB_QP_MIN_RNR_TIMER, live, keyed}},
	{abi.IB_QPS_RTS, abi.IB_QPS_RTS}: {may: [3]uint32{live | abi.IB_QP_MIN_RNR_TIMER, live, keyed}},
	{abi.IB_QPS_RTS, abi.IB_QPS_SQD}: {may: [3]uint32{abi.IB_QP_EN_SQD_ASYNC_NOTIFY, abi.IB_QP_EN_SQD_ASYNC_NOTIFY, abi.IB_QP_EN_SQD_ASYNC_NOTIFY}},
	{abi.IB_QPS_SQD, abi.IB_QPS_RTS}: {may: [3]uint32{live | abi.IB_QP_MIN_RNR_TIMER, live, keyed}},
	{abi.IB_QPS_SQD, abi.IB_QPS_SQD}: {may: [3]uint32{
		calm | abi.IB_QP_PORT | retry | abi.IB_QP_MAX_DEST_RD_ATOMIC | abi.IB_QP_MIN_RNR_TIMER, calm, abi.IB_QP_PKEY_INDEX | abi.IB_QP_QKEY}},
	{abi.IB_QPS_SQE, abi.IB_QPS_RTS}: {may: [3]uint32{0, abi.IB_QP_CUR_STATE | abi.IB_QP_ACCESS_FLAGS, keyed}},
}

// modifyIsOK is ib_modify_qp_is_ok. An RC QP may go from SQE to RTS with nothing,
// which the specification does not know.
func modifyIsOK(from, to uint8, typ uint64, mask uint32) bool {
	if mask&abi.IB_QP_CUR_STATE != 0 && (from < abi.IB_QPS_RTR || from > abi.IB_QPS_SQE) {
		return false
	}
	n, ok := moves[move{from, to}]
	if to == abi.IB_QPS_RESET || to == abi.IB_QPS_ERR && from != abi.IB_QPS_RESET {
		n, ok = need{}, true
	}
	i := map[uint64]int{abi.IB_UVERBS_QPT_RC: 0, abi.IB_UVERBS_QPT_UC: 1, abi.IB_UVERBS_QPT_UD: 2}[typ]
	return ok && mask&n.must[i] == n.must[i] && mask&^(n.must[i]|n.may[i]|abi.IB_QP_STATE) == 0
}
