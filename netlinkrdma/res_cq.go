package netlinkrdma

import (
	"iter"

	"github.com/goverbs/goverbs/internal/abi"
)

// CQ is a completion queue as the kernel keeps track of it.
type CQ struct {
	Owner
	CQN                uint32           // its number
	CQE                uint32           // entries it has room for
	Users              uint64           // queues that complete into it
	PollContext        Opt[PollContext] // of the kernel's own
	AdaptiveModeration Opt[bool]        // whether interrupts are moderated as the load has it
	CTXN               Opt[uint32]      // context it was made in, of a process's
	Driver             []DriverAttr     // what only the driver knows the meaning of
}

var cqResource = tracked[CQ]{
	name: "CQ", op: abi.RDMA_NLDEV_CMD_RES_CQ_GET,
	table: abi.RDMA_NLDEV_ATTR_RES_CQ, entry: abi.RDMA_NLDEV_ATTR_RES_CQ_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_CQN,
	parse: parseCQ, number: func(q *CQ) uint32 { return q.CQN },
}

// DumpCQ goes through the completion queues of the device with this index,
// while the kernel lists them. After an error there are no more.
//
// C: rdma resource show cq
func (c *Client) DumpCQ(device uint32, o *DumpOptions) iter.Seq2[CQ, error] {
	return cqResource.dump(c, device, o)
}

// GetCQ asks for the completion queue with this number.
func (c *Client) GetCQ(device, cqn uint32) (CQ, error) { return cqResource.get(c, device, 0, cqn) }

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
