package driver

// QPCap is the capacity of a QP.
//
// C: struct ibv_qp_cap
type QPCap struct {
	MaxSendWR, MaxRecvWR   uint32 // work requests that can be outstanding
	MaxSendSGE, MaxRecvSGE uint32 // SGEs in one
	MaxInline              uint32 // bytes of inline data in one
}
