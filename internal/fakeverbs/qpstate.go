package fakeverbs

import "github.com/goverbs/goverbs/internal/abi"

type move struct{ from, to uint8 }

// need is what a transition must have, and may have, for RC, UC, UD, XRC_INI, XRC_TGT and RAW_PACKET.
type need struct{ must, may [6]uint32 }

const (
	first  = abi.IB_QP_PKEY_INDEX | abi.IB_QP_PORT
	heard  = abi.IB_QP_MAX_DEST_RD_ATOMIC | abi.IB_QP_MIN_RNR_TIMER
	path   = abi.IB_QP_AV | abi.IB_QP_PATH_MTU | abi.IB_QP_DEST_QPN | abi.IB_QP_RQ_PSN
	retry  = abi.IB_QP_TIMEOUT | abi.IB_QP_RETRY_CNT | abi.IB_QP_RNR_RETRY | abi.IB_QP_MAX_QP_RD_ATOMIC
	later  = abi.IB_QP_ALT_PATH | abi.IB_QP_ACCESS_FLAGS | abi.IB_QP_PKEY_INDEX
	live   = abi.IB_QP_CUR_STATE | abi.IB_QP_ALT_PATH | abi.IB_QP_ACCESS_FLAGS | abi.IB_QP_PATH_MIG_STATE
	keyed  = abi.IB_QP_CUR_STATE | abi.IB_QP_QKEY
	told   = abi.IB_QP_EN_SQD_ASYNC_NOTIFY
	rights = first | abi.IB_QP_ACCESS_FLAGS
	calm   = abi.IB_QP_AV | later | abi.IB_QP_PATH_MIG_STATE
)

// moves is the kernel's qp_state_table, without the moves to RESET and ERR.
var moves = map[move]need{
	{abi.IB_QPS_RESET, abi.IB_QPS_INIT}: {must: [6]uint32{rights, rights, first | abi.IB_QP_QKEY, rights, rights, abi.IB_QP_PORT}},
	{abi.IB_QPS_INIT, abi.IB_QPS_INIT}:  {may: [6]uint32{rights, rights, first | abi.IB_QP_QKEY, rights, rights}},
	{abi.IB_QPS_INIT, abi.IB_QPS_RTR}: {must: [6]uint32{path | heard, path, 0, path, path | heard},
		may: [6]uint32{later, later, abi.IB_QP_PKEY_INDEX | abi.IB_QP_QKEY, later, later}},
	{abi.IB_QPS_RTR, abi.IB_QPS_RTS}: {
		must: [6]uint32{retry | abi.IB_QP_SQ_PSN, abi.IB_QP_SQ_PSN, abi.IB_QP_SQ_PSN, retry | abi.IB_QP_SQ_PSN, abi.IB_QP_TIMEOUT | abi.IB_QP_SQ_PSN},
		may:  sending},
	{abi.IB_QPS_RTS, abi.IB_QPS_RTS}: {may: sending},
	{abi.IB_QPS_RTS, abi.IB_QPS_SQD}: {may: [6]uint32{told, told, told, told, told}},
	{abi.IB_QPS_SQD, abi.IB_QPS_RTS}: {may: sending},
	{abi.IB_QPS_SQD, abi.IB_QPS_SQD}: {may: [6]uint32{calm | abi.IB_QP_PORT | retry | heard, calm, abi.IB_QP_PKEY_INDEX | abi.IB_QP_QKEY,
		calm | abi.IB_QP_PORT | retry, calm | abi.IB_QP_PORT | abi.IB_QP_TIMEOUT | heard}},
	{abi.IB_QPS_SQE, abi.IB_QPS_RTS}: {may: [6]uint32{0, abi.IB_QP_CUR_STATE | abi.IB_QP_ACCESS_FLAGS, keyed}},
}

// sending is what may change while sends are carried out.
var sending = [6]uint32{live | abi.IB_QP_MIN_RNR_TIMER, live, keyed, live, live | abi.IB_QP_MIN_RNR_TIMER, abi.IB_QP_RATE_LIMIT}

// ignored are attributes that the core leaves out of a QP's modification.
var ignored = map[uint64]uint32{
	abi.IB_UVERBS_QPT_XRC_INI: heard,
	abi.IB_UVERBS_QPT_XRC_TGT: abi.IB_QP_MAX_QP_RD_ATOMIC | abi.IB_QP_RETRY_CNT | abi.IB_QP_RNR_RETRY,
}

// ModifyIsOK is ib_modify_qp_is_ok. An RC QP may go from SQE to RTS with nothing,
// which the specification does not know.
func ModifyIsOK(from, to uint8, typ uint64, mask uint32) bool {
	if mask&abi.IB_QP_CUR_STATE != 0 && (from < abi.IB_QPS_RTR || from > abi.IB_QPS_SQE) {
		return false
	}
	n, ok := moves[move{from, to}]
	if to == abi.IB_QPS_RESET || to == abi.IB_QPS_ERR && from != abi.IB_QPS_RESET {
		n, ok = need{}, true
	}
	mask &^= ignored[typ]
	i := map[uint64]int{abi.IB_UVERBS_QPT_RC: 0, abi.IB_UVERBS_QPT_UC: 1, abi.IB_UVERBS_QPT_UD: 2, abi.IB_UVERBS_QPT_XRC_INI: 3, abi.IB_UVERBS_QPT_XRC_TGT: 4, abi.IB_UVERBS_QPT_RAW_PACKET: 5}[typ]
	return ok && mask&n.must[i] == n.must[i] && mask&^(n.must[i]|n.may[i]|abi.IB_QP_STATE) == 0
}
