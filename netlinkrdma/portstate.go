package netlinkrdma

import "fmt"

// PortState is the logical state of a port; only an ACTIVE port carries data.
//
// C: enum ib_port_state
type PortState uint8

// The port states. On siw and rxe the state follows the network device.
const (
	PortNop         PortState = 0
	PortDown        PortState = 1
	PortInit        PortState = 2
	PortArmed       PortState = 3
	PortActive      PortState = 4
	PortActiveDefer PortState = 5
)

var portStateNames = [...]string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}

// String gives iproute2's word, or PortState(27) for a value without one.
func (s PortState) String() string {
	if int(s) < len(portStateNames) {
		return portStateNames[s]
	}
	return fmt.Sprintf("PortState(%d)", uint8(s))
}

// PhysState is the state of the physical link of a port.
//
// C: enum ib_port_phys_state
type PhysState uint8

// The physical states of InfiniBand; other transports use a few of them.
const (
	PhysSleep       PhysState = 1
	PhysPolling     PhysState = 2
	PhysDisabled    PhysState = 3
	PhysTraining    PhysState = 4
	PhysLinkUp      PhysState = 5
	PhysLinkRecover PhysState = 6
	PhysTest        PhysState = 7
	PhysOPAOffline  PhysState = 9
	PhysOPATest     PhysState = 11
)

// Value 4 is called ARMED by iproute2, though it means that the link trains.
var physStateNames = [...]string{
	"NOP", "SLEEP", "POLLING", "DISABLED", "ARMED", "LINK_UP",
	"LINK_ERROR_RECOVER", "PHY_TEST", "UNKNOWN", "OPA_OFFLINE", "UNKNOWN", "OPA_TEST",
}

// String gives iproute2's word, or PhysState(27) for a value without one.
func (s PhysState) String() string {
	if int(s) < len(physStateNames) {
		return physStateNames[s]
	}
	return fmt.Sprintf("PhysState(%d)", uint8(s))
}
