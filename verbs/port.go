package verbs

import "fmt"

// PortAttr is the state of a port.
//
// C: struct ibv_port_attr
type PortAttr struct {
	State                     PortState
	PhysState                 PhysState
	LinkLayer                 LinkLayer
	MaxMTU, ActiveMTU         MTU
	MaxMsgSize                uint32 // bytes
	GIDTableLen, PKeyTableLen uint32
	ActiveWidth               uint8  // IB encoding: 1, 2, 4, 8, 16 mean 1x, 4x, 8x, 12x, 2x
	ActiveSpeed               uint32 // IB encoding
	CapFlags                  uint32
	CapFlags2                 uint16
	LID, SMLID                uint16
	LMC, MaxVLNum, SMSL       uint8
	SubnetTimeout             uint8
	InitTypeReply             uint8
	BadPKeyCounter            uint32
	QKeyViolationCounter      uint32
	GRHRequired               bool // addresses need a GID, as on RoCE
}

// PortState is the logical state of a port. Only an active port carries data.
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

// String returns iproute2's name, or PortState(27) for a value without one.
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

// iproute2 calls value 4 ARMED, although it means that the link is training.
var physStateNames = [...]string{
	"NOP", "SLEEP", "POLLING", "DISABLED", "ARMED", "LINK_UP",
	"LINK_ERROR_RECOVER", "PHY_TEST", "UNKNOWN", "OPA_OFFLINE", "UNKNOWN", "OPA_TEST",
}

// String returns iproute2's name, or PhysState(27) for a value without one.
func (s PhysState) String() string {
	if int(s) < len(physStateNames) {
		return physStateNames[s]
	}
	return fmt.Sprintf("PhysState(%d)", uint8(s))
}

// LinkLayer is the link layer of a port.
type LinkLayer uint8

// Link layers.
const (
	LinkUnspecified LinkLayer = 0 // EFA has no other; of an old kernel it means InfiniBand
	LinkInfiniBand  LinkLayer = 1
	LinkEthernet    LinkLayer = 2
)

func (l LinkLayer) String() string {
	switch l {
	case LinkUnspecified:
		return "Unspecified"
	case LinkInfiniBand:
		return "InfiniBand"
	case LinkEthernet:
		return "Ethernet"
	}
	return fmt.Sprintf("LinkLayer(%d)", uint8(l))
}

// MTU is the encoded maximum payload of a packet.
//
// C: enum ibv_mtu
type MTU uint8

// The sizes that a path can have.
const (
	MTU256  MTU = 1
	MTU512  MTU = 2
	MTU1024 MTU = 3
	MTU2048 MTU = 4
	MTU4096 MTU = 5
)

// Bytes returns the MTU in bytes, or 0 for an unknown code.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}
