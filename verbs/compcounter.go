package verbs

// CompCounterOps is a set of operations that a completion counter counts.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: enum ibv_qp_attach_comp_cntr_op
type CompCounterOps uint32

const (
	CompCounterSend       CompCounterOps = 1 << iota
	CompCounterRecv                      // receives
	CompCounterRead                      // READs of the QP
	CompCounterRemoteRead                // READs of the peer
	CompCounterWrite
	CompCounterRemoteWrite
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
	MaxCounters uint32
	MaxValue    uint64 // after which a number wraps around
	Ops         CompCounterOps
}
