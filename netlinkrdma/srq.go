package netlinkrdma

import (
	"fmt"
	"iter"

	"github.com/goverbs/goverbs/internal/abi"
)

// SRQ is a shared receive queue as the kernel tracks it.
type SRQ struct {
	Owner
	SRQN   uint32 // its number
	Type   SRQType
	PDN    Opt[uint32]
	CQN    Opt[uint32]  // known for types XRC and TM
	LQPN   []QPRange    // queue pairs that receive from it
	Driver []DriverAttr // the driver's own attributes
}

// QPRange is a range of queue pair numbers, First and Last included.
type QPRange struct{ First, Last uint32 }

// String returns iproute2's form: 17, or 17-20.
func (r QPRange) String() string {
	if r.First == r.Last {
		return fmt.Sprint(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

var srqResource = tracked[SRQ]{
	name: "SRQ", op: abi.RDMA_NLDEV_CMD_RES_SRQ_GET,
	table: abi.RDMA_NLDEV_ATTR_RES_SRQ, entry: abi.RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_SRQN,
	parse: parseSRQ, number: func(s *SRQ) uint32 { return s.SRQN },
}

// SRQs yields the shared receive queues of the device with this index while
// the kernel lists them. It ends after an error.
//
// C: rdma resource show srq
func (c *Client) SRQs(device uint32, o *ListOptions) iter.Seq2[SRQ, error] {
	return srqResource.dump(c, device, o)
}

// SRQ returns the shared receive queue with this number.
func (c *Client) SRQ(device, srqn uint32) (SRQ, error) {
	return srqResource.get(c, device, 0, srqn)
}

func parseSRQ(a *attributes, s *SRQ) {
	var srqn, typ bool
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_RES_SRQN:
			s.SRQN, srqn = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_RES_TYPE:
			s.Type, typ = SRQType(a.uint8()), true
		case abi.RDMA_NLDEV_ATTR_RES_PDN:
			s.PDN = known(a.uint32())
		case abi.RDMA_NLDEV_ATTR_RES_CQN:
			s.CQN = known(a.uint32())
		case abi.RDMA_NLDEV_ATTR_RES_QP:
			s.LQPN = parseQPRanges(a)
		default:
			parseCommon(a, &s.Owner, &s.Driver)
		}
	}
	a.require(srqn, abi.RDMA_NLDEV_ATTR_RES_SRQN)
	a.require(typ, abi.RDMA_NLDEV_ATTR_RES_TYPE)
}

func parseQPRanges(a *attributes) []QPRange {
	var all []QPRange
	table := a.inside()
	for table.next() {
		if table.typ == abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY {
			entry := table.inside()
			all = append(all, parseQPRange(&entry))
			table.adopt(&entry)
		}
	}
	a.adopt(&table)
	return all
}

func parseQPRange(a *attributes) QPRange {
	var r QPRange
	var first, last bool
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_RES_LQPN:
			r.First, first = a.uint32(), true
			r.Last, last = r.First, true
		case abi.RDMA_NLDEV_ATTR_MIN_RANGE:
			r.First, first = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_MAX_RANGE:
			r.Last, last = a.uint32(), true
		}
	}
	a.require(first, abi.RDMA_NLDEV_ATTR_RES_LQPN)
	a.require(last, abi.RDMA_NLDEV_ATTR_MAX_RANGE)
	return r
}

// SRQType is the type of a shared receive queue.
//
// C: enum ib_srq_type
type SRQType uint8

// The types of shared receive queues.
const (
	SRQTypeBasic SRQType = abi.IB_UVERBS_SRQT_BASIC
	SRQTypeXRC   SRQType = abi.IB_UVERBS_SRQT_XRC
	SRQTypeTM    SRQType = abi.IB_UVERBS_SRQT_TM // tag matching
)

var srqTypeNames = [...]string{"BASIC", "XRC", "TM"}

// String returns iproute2's word, or SRQType(27) for a value without one.
func (t SRQType) String() string { return wordFor("SRQType", srqTypeNames[:], uint8(t)) }
