package fakeverbs

import (
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
)

// TestBareRefuses checks that a driver without a model makes the checks that all drivers make.
func TestBareRefuses(t *testing.T) {
	qp := func(state uint8) *QP { return &QP{Type: abi.IB_UVERBS_QPT_RC, CurState: state} }
	move := func(to uint8, mask uint32) *abi.IbUverbsModifyQp {
		return &abi.IbUverbsModifyQp{QpState: to, AttrMask: abi.IB_QP_STATE | mask}
	}
	srq := func(mask, maxWR, limit uint32) error {
		return Bare{}.ModifySRQ(&SRQ{MaxWR: 4}, &abi.IbUverbsModifySrq{AttrMask: mask, MaxWr: maxWR, SrqLimit: limit}, nil)
	}
	const init = abi.IB_QP_PKEY_INDEX | abi.IB_QP_PORT | abi.IB_QP_ACCESS_FLAGS
	for name, c := range map[string]struct{ got, want error }{
		"RESET to INIT":         {Bare{}.ModifyQP(qp(abi.IB_QPS_RESET), move(abi.IB_QPS_INIT, init)), nil},
		"RESET to INIT, bare":   {Bare{}.ModifyQP(qp(abi.IB_QPS_RESET), move(abi.IB_QPS_INIT, 0)), syscall.EINVAL},
		"RESET to ERR":          {Bare{}.ModifyQP(qp(abi.IB_QPS_RESET), move(abi.IB_QPS_ERR, 0)), syscall.EINVAL},
		"RTS to ERR":            {Bare{}.ModifyQP(qp(abi.IB_QPS_RTS), move(abi.IB_QPS_ERR, 0)), nil},
		"ERR to RESET":          {Bare{}.ModifyQP(qp(abi.IB_QPS_ERR), move(abi.IB_QPS_RESET, 0)), nil},
		"a QP type of nobody's": {Bare{}.CreateQP(&QP{Type: 99}, nil), syscall.EOPNOTSUPP},
		"too many SGEs":         {Bare{}.CreateQP(&QP{Type: abi.IB_UVERBS_QPT_RC, Cap: abi.IbUverbsQpCap{MaxSendSge: 1 << 20}}, nil), syscall.EINVAL},
		"CQ flags":              {Bare{}.CreateCQ(&CQ{Flags: 1 << 9}, nil), syscall.EOPNOTSUPP},
		"a CQ of none":          {Bare{}.ResizeCQ(&CQ{}, 0, nil), syscall.EINVAL},
		"SRQ attributes":        {srq(1<<5, 0, 0), syscall.EINVAL},
		"an SRQ of none":        {srq(abi.IB_SRQ_MAX_WR, 0, 0), syscall.EINVAL},
		"a limit above all":     {srq(abi.IB_SRQ_LIMIT, 0, 5), syscall.EINVAL},
		"a limit":               {srq(abi.IB_SRQ_LIMIT, 0, 4), nil},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	for _, call := range []string{"POST_SEND", "REQ_NOTIFY_CQ"} {
		if (Bare{}).Has(call) {
			t.Errorf("hardware has %s", call)
		}
	}
}
