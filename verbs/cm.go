package verbs

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// PortSpace is the space of port numbers of a connection manager id.
//
// C: enum rdma_ucm_port_space
type PortSpace uint32

// The port spaces.
const (
	PortSpaceIPoIB PortSpace = abi.RDMA_PS_IPOIB
	PortSpaceIB    PortSpace = abi.RDMA_PS_IB
	PortSpaceTCP   PortSpace = abi.RDMA_PS_TCP
	PortSpaceUDP   PortSpace = abi.RDMA_PS_UDP
)

// String returns iproute2's name, or PortSpace(27) for a value without one.
func (p PortSpace) String() string {
	switch p {
	case PortSpaceIPoIB:
		return "IPoIB"
	case PortSpaceIB:
		return "IB"
	case PortSpaceTCP:
		return "TCP"
	case PortSpaceUDP:
		return "UDP"
	}
	return fmt.Sprintf("PortSpace(%d)", uint32(p))
}
