package verbs

// CompCounterOps is a set of operations that a completion counter counts.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: enum ibv_qp_attach_comp_cntr_op
type CompCounterOps uint32

// The operations. Those of the peer have no failures.
const (
	CompCounterSend        CompCounterOps = 1 << iota
	CompCounterRecv                       // receives
	CompCounterRead                       // READs of the QP
	CompCounterRemoteRead                 // READs of the peer
	CompCounterWrite                      // WRITEs of the QP
	CompCounterRemoteWrite                // WRITEs of the peer, with and without immediate data
)

// String returns the names of the bits.
func (o CompCounterOps) String() string {
	return bitNames(uint64(o), map[int]string{0: "Send", 1: "Recv", 2: "Read", 3: "RemoteRead", 4: "Write", 5: "RemoteWrite"})
}

// CompCounterCaps has the limits of a device's completion counters.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: struct ibv_comp_cntr_caps
type CompCounterCaps struct {
	MaxCounters uint32 // 0 if the device has none
	MaxValue    uint64 // after which a number begins again at 0
	Ops         CompCounterOps
}
