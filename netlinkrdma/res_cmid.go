package netlinkrdma

import (
	"iter"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// CMID is an id of the connection manager: a listener, or one side of a
// connection.
type CMID struct {
	Owner
	Port   uint32            // 0: it has none yet, or listens on all
	CMIDN  uint32            // its number
	LQPN   uint32            // of its queue pair; 0: it has none
	QPType Opt[verbs.QPType] // with a queue pair only
	PS     verbs.PortSpace
	State  CMState
	Src    CMAddr
	Dst    CMAddr
	Driver []DriverAttr // what only the driver knows the meaning of
}

var cmIDResource = tracked[CMID]{
	name: "CM id", op: abi.RDMA_NLDEV_CMD_RES_CM_ID_GET,
	table: abi.RDMA_NLDEV_ATTR_RES_CM_ID, entry: abi.RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_CM_IDN,
	parse: parseCMID, number: func(m *CMID) uint32 { return m.CMIDN },
}

// DumpCMID goes through the CM ids of the device with this index, while the
// kernel lists them. After an error there are no more. An id that is bound to
// no device is listed nowhere.
//
// C: rdma resource show cm_id
func (c *Client) DumpCMID(device uint32, o *DumpOptions) iter.Seq2[CMID, error] {
	return cmIDResource.dump(c, device, o)
}

// GetCMID asks for the CM id with this number. The kernel wants to know its
// port too, so that one without a port can't be had in this way.
func (c *Client) GetCMID(device, port, number uint32) (CMID, error) {
	return cmIDResource.get(c, device, port, number)
}

func parseCMID(a *attributes, m *CMID) {
	var number, ps, state bool
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			m.Port = a.uint32()
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
