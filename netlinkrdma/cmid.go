package netlinkrdma

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// CMID is an id of the connection manager: a listener or one side of a connection.
type CMID struct {
	Owner
	Port   int               // 0: it has none yet, or listens on all ports
	CMIDN  uint32            // its number
	LQPN   uint32            // number of its queue pair; 0: it has none
	QPType Opt[verbs.QPType] // known if it has a queue pair
	PS     verbs.PortSpace
	State  CMState
	Src    CMAddr
	Dst    CMAddr
	Driver []DriverAttr // the driver's own attributes
}

var cmIDResource = tracked[CMID]{
	name: "CM id", op: abi.RDMA_NLDEV_CMD_RES_CM_ID_GET,
	table: abi.RDMA_NLDEV_ATTR_RES_CM_ID, entry: abi.RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_CM_IDN,
	parse: parseCMID, number: func(m *CMID) uint32 { return m.CMIDN },
}

// CMIDs yields the CM ids of the device with this index while the kernel lists them. It
// ends after an error. No device lists an id that is not bound to a device.
//
// C: rdma resource show cm_id
func (c *Client) CMIDs(device uint32, o *ListOptions) iter.Seq2[CMID, error] {
	return cmIDResource.dump(c, device, o)
}

// CMID returns the CM id with this number. The kernel requires its port as well, so
// CMID cannot find an id that has no port yet.
func (c *Client) CMID(device uint32, port int, number uint32) (CMID, error) {
	return cmIDResource.get(c, device, port, number)
}

func parseCMID(a *attributes, m *CMID) {
	var number, ps, state bool
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			m.Port = int(a.uint32())
		case abi.RDMA_NLDEV_ATTR_RES_CM_IDN:
			m.CMIDN, number = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_RES_LQPN:
			m.LQPN = a.uint32()
		case abi.RDMA_NLDEV_ATTR_RES_TYPE:
			m.QPType = known(verbs.QPType(a.uint8()))
		case abi.RDMA_NLDEV_ATTR_RES_PS:
			m.PS, ps = verbs.PortSpace(a.uint32()), true
		case abi.RDMA_NLDEV_ATTR_RES_STATE:
			m.State, state = CMState(a.uint8()), true
		case abi.RDMA_NLDEV_ATTR_RES_SRC_ADDR:
			m.Src = parseCMAddr(a)
		case abi.RDMA_NLDEV_ATTR_RES_DST_ADDR:
			m.Dst = parseCMAddr(a)
		default:
			parseCommon(a, &m.Owner, &m.Driver)
		}
	}
	a.require(number, abi.RDMA_NLDEV_ATTR_RES_CM_IDN)
	a.require(ps, abi.RDMA_NLDEV_ATTR_RES_PS)
	a.require(state, abi.RDMA_NLDEV_ATTR_RES_STATE)
}

// CMState is the state of an id of the connection manager.
//
// C: enum rdma_cm_state
type CMState uint8

// The states. Linux 6.12 does not have the last two, Linux 7.2 does.
const (
	CMStateIdle             CMState = 0
	CMStateAddrQuery        CMState = 1
	CMStateAddrResolved     CMState = 2
	CMStateRouteQuery       CMState = 3
	CMStateRouteResolved    CMState = 4
	CMStateConnect          CMState = 5 // connecting, or connected
	CMStateDisconnect       CMState = 6
	CMStateAddrBound        CMState = 7
	CMStateListen           CMState = 8
	CMStateDeviceRemoval    CMState = 9
	CMStateDestroying       CMState = 10
	CMStateAddrInfoQuery    CMState = 11
	CMStateAddrInfoResolved CMState = 12
)

var cmStateNames = [...]string{
	"IDLE", "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_QUERY", "ROUTE_RESOLVED", "CONNECT",
	"DISCONNECT", "ADDR_BOUND", "LISTEN", "DEVICE_REMOVAL", "DESTROYING", "ADDRINFO_QUERY", "ADDRINFO_RESOLVED",
}

// String returns iproute2's word, or CMState(27) for a value without one.
func (s CMState) String() string { return wordFor("CMState", cmStateNames[:], uint8(s)) }

// CMAddr is an address of a CM id.
type CMAddr struct {
	Family uint16 // AF_INET, AF_INET6 or AF_IB, as Linux numbers them; 0: there is no address
	// AddrPort is the address and the port. For AF_IB they are the GID, and the port in
	// the service ID. AddrPort is not valid for other families.
	AddrPort netip.AddrPort
	Raw      []byte // the sockaddr of another family
}

const sockaddrStorage = 128 // bytes that the kernel sends

// The address families as Linux numbers them. Other systems have other numbers.
const (
	afINET  = 2
	afINET6 = 10
	afIB    = 27
)

// String returns iproute2's form, which puts no brackets around an IPv6 address.
func (a CMAddr) String() string {
	switch {
	case a.AddrPort.IsValid():
		return fmt.Sprintf("%s:%d", a.AddrPort.Addr(), a.AddrPort.Port())
	case a.Family == 0:
		return ""
	}
	return fmt.Sprintf("Family(%d)", a.Family)
}

// parseCMAddr parses a sockaddr_storage, whose ports and addresses are in network byte order.
func parseCMAddr(a *attributes) CMAddr {
	if len(a.value) < 2 {
		a.sized(sockaddrStorage)
		return CMAddr{}
	}
	v := a.value
	addr := CMAddr{Family: binary.NativeEndian.Uint16(v)}
	switch {
	case addr.Family == afINET && len(v) >= 8:
		addr.AddrPort = netip.AddrPortFrom(netip.AddrFrom4([4]byte(v[4:])), binary.BigEndian.Uint16(v[2:]))
	case addr.Family == afINET6 && len(v) >= 24:
		addr.AddrPort = netip.AddrPortFrom(netip.AddrFrom16([16]byte(v[8:])), binary.BigEndian.Uint16(v[2:]))
	case addr.Family == afIB && len(v) >= 40:
		addr.AddrPort = netip.AddrPortFrom(netip.AddrFrom16([16]byte(v[8:])), binary.BigEndian.Uint16(v[30:]))
	case addr.Family == afINET || addr.Family == afINET6 || addr.Family == afIB:
		a.sized(sockaddrStorage)
	default:
		addr.Raw = bytes.Clone(v)
	}
	return addr
}
