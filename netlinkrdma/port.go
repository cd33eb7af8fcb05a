package netlinkrdma

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// Port is one port of a device, with the network device behind it.
type Port struct {
	DeviceIndex  uint32
	DeviceName   string
	Index        int // from 1
	State        verbs.PortState
	PhysState    verbs.PhysState
	NetdevIndex  uint32     // 0: none, or it is in another network namespace
	NetdevName   string     // empty when NetdevIndex is 0
	InfiniBand   bool       // the fields below are only set on InfiniBand ports
	CapFlags     uint64     // port capability flags, CapMask2 in the upper half
	SubnetPrefix verbs.GUID // upper half of the port's GIDs
	LID          uint32
	SMLID        uint32 // LID of the subnet manager
	LMC          uint8
}

// Ports lists the ports of the device with this index.
//
// C: rdma link show
func (c *Client) Ports(device uint32) ([]Port, error) {
	op := operation{"list ports of", numbered(device)}
	replies, err := c.call(op, Request{
		Op: abi.RDMA_NLDEV_CMD_PORT_GET, Dump: true, Attrs: []Attr{byIndex(device)},
	})
	if err != nil {
		return nil, err
	}
	ports := make([]Port, 0, len(replies))
	for _, reply := range replies {
		p, err := parsePort(reply)
		if err != nil {
			return nil, op.failed(err)
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// Port returns one port of the device with this index. Ports are numbered from 1.
func (c *Client) Port(device uint32, port int) (Port, error) {
	op := operation{"find", portOf(device, port)}
	reply, err := c.callOne(op, Request{Op: abi.RDMA_NLDEV_CMD_PORT_GET, Attrs: byPort(device, port)})
	if err != nil {
		return Port{}, err
	}
	p, err := parsePort(reply)
	if err != nil {
		return Port{}, op.failed(err)
	}
	return p, nil
}

func parsePort(reply []byte) (Port, error) {
	var p Port
	var device bool
	a := attributes{rest: reply}
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_DEV_INDEX:
			p.DeviceIndex, device = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_DEV_NAME:
			p.DeviceName = a.string()
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			p.Index = int(a.uint32())
		case abi.RDMA_NLDEV_ATTR_PORT_STATE:
			p.State = verbs.PortState(a.uint8())
		case abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE:
			p.PhysState = verbs.PhysState(a.uint8())
		case abi.RDMA_NLDEV_ATTR_NDEV_INDEX:
			p.NetdevIndex = a.uint32()
		case abi.RDMA_NLDEV_ATTR_NDEV_NAME:
			p.NetdevName = a.string()
		default:
			parseInfiniBand(&p, &a)
		}
	}
	a.require(device, abi.RDMA_NLDEV_ATTR_DEV_INDEX)
	a.require(p.DeviceName != "", abi.RDMA_NLDEV_ATTR_DEV_NAME)
	a.require(p.Index != 0, abi.RDMA_NLDEV_ATTR_PORT_INDEX)
	if a.err != nil {
		return Port{}, a.err
	}
	return p, nil
}

// parseInfiniBand parses the attributes that only InfiniBand ports have. A port that has the
// LID attribute, which may be 0, is an InfiniBand port.
func parseInfiniBand(p *Port, a *attributes) {
	switch a.typ {
	case abi.RDMA_NLDEV_ATTR_CAP_FLAGS:
		p.CapFlags = a.uint64()
	case abi.RDMA_NLDEV_ATTR_SUBNET_PREFIX:
		p.SubnetPrefix = verbs.GUID(a.uint64())
	case abi.RDMA_NLDEV_ATTR_LID:
		p.LID, p.InfiniBand = a.uint32(), true
	case abi.RDMA_NLDEV_ATTR_SM_LID:
		p.SMLID = a.uint32()
	case abi.RDMA_NLDEV_ATTR_LMC:
		p.LMC = a.uint8()
	}
}
