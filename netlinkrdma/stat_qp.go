package netlinkrdma

import (
	"iter"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// QPCounter is a set of counters to which QPs are bound: it counts for these
// alone.
type QPCounter struct {
	Owner    // in automatic mode by CountByPID
	ID       uint32
	Port     uint32
	Mode     CounterMode
	QPType   Opt[verbs.QPType] // in automatic mode by type
	LQPN     []QPRange         // the QPs that are bound
	Counters []Counter
}

var qpCounterResource = tracked[QPCounter]{
	name: "QP counter", op: abi.RDMA_NLDEV_CMD_STAT_GET, stat: abi.RDMA_NLDEV_ATTR_RES_QP,
	table: abi.RDMA_NLDEV_ATTR_STAT_COUNTER, entry: abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY, id: abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID,
	parse: parseQPCounter, number: func(q *QPCounter) uint32 { return q.ID },
}

// DumpQPCounter goes through the QP counters of the device with this index,
// while the kernel lists them. After an error there are no more. There are none
// until QPs are bound, see [Client.SetAutoCounters] and [Client.BindCounter].
//
// C: rdma statistic qp show
func (c *Client) DumpQPCounter(device uint32, o *DumpOptions) iter.Seq2[QPCounter, error] {
	return qpCounterResource.dump(c, device, o)
}

// GetQPCounter asks for the QP counter with this number. The kernel wants to
// know its port too.
func (c *Client) GetQPCounter(device, port, id uint32) (QPCounter, error) {
	return qpCounterResource.get(c, device, port, id)
}

func parseQPCounter(a *attributes, q *QPCounter) {
	var id, mode bool
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID:
			q.ID, id = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			q.Port = a.uint32()
		case abi.RDMA_NLDEV_ATTR_STAT_MODE:
			q.Mode, mode = CounterMode(a.uint32()), true
		case abi.RDMA_NLDEV_ATTR_RES_TYPE:
			q.QPType = known(verbs.QPType(a.uint8()))
		case abi.RDMA_NLDEV_ATTR_RES_QP:
			q.LQPN = parseQPRanges(a)
		case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS:
			q.Counters = parseCounters(a)
		default:
			parseOwner(a, &q.Owner)
		}
	}
	a.require(id, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID)
	a.require(mode, abi.RDMA_NLDEV_ATTR_STAT_MODE)
}
