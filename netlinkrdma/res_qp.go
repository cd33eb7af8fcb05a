package netlinkrdma

import (
	"errors"
	"iter"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// QP is a queue pair as the kernel keeps track of it.
type QP struct {
	Owner
	Port         uint32 // 0: it has none yet
	LQPN         uint32 // its number
	Type         verbs.QPType
	Subtype      string // of a DRIVER QP; what it is called depends on the driver
	State        verbs.QPState
	SQPSN        uint32                  // packet sequence number of the next send
	RQPN         Opt[uint32]             // the peer's number, of RC and UC
	RQPSN        Opt[uint32]             // packet sequence number of the next receive, of RC and UC
	PathMigState Opt[verbs.PathMigState] // of connected ones
	PDN          Opt[uint32]             // PD; the kernel's own QPs don't tell
	Driver       []DriverAttr            // what only the driver knows the meaning of
}

var qpResource = tracked[QP]{
	name: "QP", op: abi.RDMA_NLDEV_CMD_RES_QP_GET,
	table: abi.RDMA_NLDEV_ATTR_RES_QP, entry: abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_LQPN,
	parse: parseQP, number: func(q *QP) uint32 {
		if q.Type == verbs.QPTypeSMI || q.Type == verbs.QPTypeGSI {
			return specialQP(q.Port, q.LQPN)
		}
		return q.LQPN
	},
}

// specialQP is what the kernel keeps the QPs of management under: each port
// has one of the same number.
//
// C: rdma_restrack_add
func specialQP(port, lqpn uint32) uint32 { return lqpn | port<<24 }

// DumpQP goes through the queue pairs of the device with this index, while the
// kernel lists them. After an error there are no more.
//
// C: rdma resource show qp
func (c *Client) DumpQP(device uint32, o *DumpOptions) iter.Seq2[QP, error] {
	return qpResource.dump(c, device, o)
}

// GetQP asks for the queue pair with this number. The kernel wants to know its
// port too, so that one without a port can't be had in this way.
func (c *Client) GetQP(device, port, lqpn uint32) (QP, error) {
	return getQP(c, &qpResource, device, port, lqpn)
}

// getQP asks for a QP, of the management ones by the number they have there.
func getQP[T any](c *Client, k *tracked[T], device, port, lqpn uint32) (T, error) {
	v, err := k.get(c, device, port, lqpn)
	if lqpn <= 1 && errors.Is(err, ErrNoObject) {
		if special, err := k.get(c, device, port, specialQP(port, lqpn)); err == nil {
			return special, nil
		}
	}
	return v, err
}

func parseQP(a *attributes, q *QP) {
	var lqpn, typ, state bool
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			q.Port = a.uint32()
		case abi.RDMA_NLDEV_ATTR_RES_LQPN:
			q.LQPN, lqpn = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_RES_PDN:
			q.PDN = known(a.uint32())
		case abi.RDMA_NLDEV_ATTR_RES_RQPN:
			q.RQPN = known(a.uint32())
		case abi.RDMA_NLDEV_ATTR_RES_RQ_PSN:
			q.RQPSN = known(a.uint32())
		case abi.RDMA_NLDEV_ATTR_RES_SQ_PSN:
			q.SQPSN = a.uint32()
		case abi.RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE:
			q.PathMigState = known(verbs.PathMigState(a.uint8()))
		case abi.RDMA_NLDEV_ATTR_RES_TYPE:
			q.Type, typ = verbs.QPType(a.uint8()), true
		case abi.RDMA_NLDEV_ATTR_RES_STATE:
			q.State, state = verbs.QPState(a.uint8()), true
		case abi.RDMA_NLDEV_ATTR_RES_SUBTYPE:
			q.Subtype = a.string()
		default:
			parseCommon(a, &q.Owner, &q.Driver)
		}
	}
	a.require(lqpn, abi.RDMA_NLDEV_ATTR_RES_LQPN)
	a.require(typ, abi.RDMA_NLDEV_ATTR_RES_TYPE)
	a.require(state, abi.RDMA_NLDEV_ATTR_RES_STATE)
}
