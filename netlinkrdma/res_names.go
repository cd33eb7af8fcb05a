package netlinkrdma

import "fmt"

// QPType is the transport service of a queue pair.
//
// C: enum ib_qp_type
type QPType uint8

const (
	qpTypeSMI QPType = 0
	qpTypeGSI QPType = 1
	// QPTypeDriver is the type of QPs that only their driver understands.
	QPTypeDriver QPType = 255
)

var qpTypeNames = [...]string{
	"SMI", "GSI", "RC", "UC", "UD", "RAW_IPV6", "RAW_ETHERTYPE", "", "RAW_PACKET", "XRC_INI", "XRC_TGT",
}

// String gives iproute2's word, or QPType(27) for a value without one.
func (t QPType) String() string {
	if t == QPTypeDriver {
		return "DRIVER"
	}
	return wordFor("QPType", qpTypeNames[:], uint8(t))
}

// QPState is where a queue pair stands in its life.
//
// C: enum ib_qp_state
type QPState uint8

var qpStateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

// String gives iproute2's word, or QPState(27) for a value without one.
func (s QPState) String() string { return wordFor("QPState", qpStateNames[:], uint8(s)) }

// PathMigState tells about the automatic migration to another path.
//
// C: enum ib_mig_state
type PathMigState uint8

var pathMigNames = [...]string{"MIGRATED", "REARM", "ARMED"}

// String gives iproute2's word, or PathMigState(27) for a value without one.
func (s PathMigState) String() string { return wordFor("PathMigState", pathMigNames[:], uint8(s)) }

// PollContext is where the kernel polls a completion queue of its own.
//
// C: enum ib_poll_context
type PollContext uint8

var pollContextNames = [...]string{"DIRECT", "SOFTIRQ", "WORKQUEUE", "UNBOUND_WORKQUEUE"}

// String gives iproute2's word, or PollContext(27) for a value without one.
func (p PollContext) String() string {
	return wordFor("PollContext", pollContextNames[:], uint8(p))
}

// SRQType is the kind of a shared receive queue.
//
// C: enum ib_srq_type
type SRQType uint8

var srqTypeNames = [...]string{"BASIC", "XRC", "TM"}

// String gives iproute2's word, or SRQType(27) for a value without one.
func (t SRQType) String() string { return wordFor("SRQType", srqTypeNames[:], uint8(t)) }

// CMState is where an id of the connection manager stands.
//
// C: enum rdma_cm_state
type CMState uint8

var cmStateNames = [...]string{
	"IDLE", "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_QUERY", "ROUTE_RESOLVED", "CONNECT",
	"DISCONNECT", "ADDR_BOUND", "LISTEN", "DEVICE_REMOVAL", "DESTROYING",
}

// String gives iproute2's word, or CMState(27) for a value without one.
func (s CMState) String() string { return wordFor("CMState", cmStateNames[:], uint8(s)) }

func wordFor(kind string, words []string, v uint8) string {
	if int(v) < len(words) && words[v] != "" {
		return words[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}
