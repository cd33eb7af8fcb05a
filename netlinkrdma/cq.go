package netlinkrdma

import (
	"iter"

	"github.com/goverbs/goverbs/internal/abi"
)

// CQ is a completion queue as the kernel tracks it.
type CQ struct {
	Owner
	CQN                uint32           // its number
	CQE                uint32           // number of entries
	Users              uint64           // number of queues that complete into it
	PollContext        Opt[PollContext] // known for the kernel's own CQs
	AdaptiveModeration Opt[bool]        // whether interrupt moderation adapts to the load
	CTXN               Opt[uint32]      // context of a process's CQ
	Driver             []DriverAttr     // the driver's own attributes
}

var cqResource = tracked[CQ]{
	name: "CQ", op: abi.RDMA_NLDEV_CMD_RES_CQ_GET,
	table: abi.RDMA_NLDEV_ATTR_RES_CQ, entry: abi.RDMA_NLDEV_ATTR_RES_CQ_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_CQN,
	parse: parseCQ, number: func(q *CQ) uint32 { return q.CQN },
}

// CQs yields the completion queues of the device with this index while
// the kernel lists them. It ends after an error.
//
// C: rdma resource show cq
func (c *Client) CQs(device uint32, o *ListOptions) iter.Seq2[CQ, error] {
	return cqResource.dump(c, device, o)
}

// CQ returns the completion queue with this number.
func (c *Client) CQ(device, cqn uint32) (CQ, error) { return cqResource.get(c, device, 0, cqn) }

func parseCQ(a *attributes, q *CQ) {
	var cqn, cqe, users bool
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_RES_CQN:
			q.CQN, cqn = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_RES_CQE:
			q.CQE, cqe = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_RES_USECNT:
			q.Users, users = a.uint64(), true
		case abi.RDMA_NLDEV_ATTR_RES_POLL_CTX:
			q.PollContext = known(PollContext(a.uint8()))
		case abi.RDMA_NLDEV_ATTR_DEV_DIM:
			if v := a.uint8(); v <= 1 {
				q.AdaptiveModeration = known(v == 1)
			}
		case abi.RDMA_NLDEV_ATTR_RES_CTXN:
			q.CTXN = known(a.uint32())
		default:
			parseCommon(a, &q.Owner, &q.Driver)
		}
	}
	a.require(cqn, abi.RDMA_NLDEV_ATTR_RES_CQN)
	a.require(cqe, abi.RDMA_NLDEV_ATTR_RES_CQE)
	a.require(users, abi.RDMA_NLDEV_ATTR_RES_USECNT)
}

// PollContext is the context in which the kernel polls one of its own completion queues.
//
// C: enum ib_poll_context
type PollContext uint8

// The contexts.
const (
	PollSoftIRQ          PollContext = 0
	PollWorkqueue        PollContext = 1
	PollUnboundWorkqueue PollContext = 2
	PollDirect           PollContext = 3 // the caller's
)

var pollContextNames = [...]string{"SOFTIRQ", "WORKQUEUE", "UNBOUND_WORKQUEUE", "DIRECT"}

// String returns the kernel's word, or PollContext(27) for a value without one. iproute2
// has the words in the order of kernels older than 6.1.
func (p PollContext) String() string {
	return wordFor("PollContext", pollContextNames[:], uint8(p))
}
