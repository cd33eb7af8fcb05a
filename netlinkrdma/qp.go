package netlinkrdma

import (
	"errors"
	"iter"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// QP is a queue pair as the kernel tracks it.
type QP struct {
	Owner
	Port         int    // 0: it has none yet
	LQPN         uint32 // its number
	Type         verbs.QPType
	Subtype      string // the driver's name for the subtype of a DRIVER QP
	State        verbs.QPState
	SQPSN        uint32                  // packet sequence number of the next send
	RQPN         Opt[uint32]             // the peer's number, for RC and UC
	RQPSN        Opt[uint32]             // packet sequence number of the next receive, for RC and UC
	PathMigState Opt[verbs.PathMigState] // known for connected QPs
	PDN          Opt[uint32]             // PD of a process's QP
	Driver       []DriverAttr            // the driver's own attributes
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

// specialQP returns the number by which the kernel stores a management QP: every port has
// one with the same QP number.
//
// C: rdma_restrack_add
func specialQP(port int, lqpn uint32) uint32 { return lqpn | uint32(port)<<24 }

// QPs yields the queue pairs of the device with this index while
// the kernel lists them. It ends after an error.
//
// C: rdma resource show qp
//
//lint:ignore ST1003 the plural of QP, which staticcheck takes for queries per second
func (c *Client) QPs(device uint32, o *ListOptions) iter.Seq2[QP, error] {
	return qpResource.dump(c, device, o)
}

// QP returns the queue pair with this number. The kernel requires its port as well, so
// QP cannot find a queue pair that has no port yet.
func (c *Client) QP(device uint32, port int, lqpn uint32) (QP, error) {
	return getQP(c, &qpResource, device, port, lqpn)
}

// getQP returns a QP. If none has the number, it tries that of a management QP.
func getQP[T any](c *Client, k *tracked[T], device uint32, port int, lqpn uint32) (T, error) {
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
			q.Port = int(a.uint32())
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
