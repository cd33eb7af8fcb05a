package netlinkrdma

import (
	"iter"

	"github.com/goverbs/goverbs/internal/abi"
)

// MR is a memory region as the kernel tracks it.
type MR struct {
	Owner
	MRN    uint32       // its number
	RKey   Opt[uint32]  // known with CAP_NET_ADMIN
	LKey   Opt[uint32]  // known with CAP_NET_ADMIN
	IOVA   Opt[uint64]  // its address for the device; not known from Linux 6.1 to 7.2
	Length uint64       // bytes
	PDN    Opt[uint32]  // PD of a process's region
	Driver []DriverAttr // the driver's own attributes
}

var mrResource = tracked[MR]{
	name: "MR", op: abi.RDMA_NLDEV_CMD_RES_MR_GET,
	table: abi.RDMA_NLDEV_ATTR_RES_MR, entry: abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_MRN,
	parse: parseMR, number: func(m *MR) uint32 { return m.MRN },
}

// MRs yields the memory regions of the device with this index while
// the kernel lists them. It ends after an error.
//
// C: rdma resource show mr
func (c *Client) MRs(device uint32, o *ListOptions) iter.Seq2[MR, error] {
	return mrResource.dump(c, device, o)
}

// MR returns the memory region with this number.
func (c *Client) MR(device, mrn uint32) (MR, error) { return mrResource.get(c, device, 0, mrn) }

func parseMR(a *attributes, m *MR) {
	var mrn, length bool
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_RES_MRN:
			m.MRN, mrn = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_RES_RKEY:
			m.RKey = known(a.uint32())
		case abi.RDMA_NLDEV_ATTR_RES_LKEY:
			m.LKey = known(a.uint32())
		case abi.RDMA_NLDEV_ATTR_RES_IOVA:
			m.IOVA = known(a.uint64())
		case abi.RDMA_NLDEV_ATTR_RES_MRLEN:
			m.Length, length = a.uint64(), true
		case abi.RDMA_NLDEV_ATTR_RES_PDN:
			m.PDN = known(a.uint32())
		default:
			parseCommon(a, &m.Owner, &m.Driver)
		}
	}
	a.require(mrn, abi.RDMA_NLDEV_ATTR_RES_MRN)
	a.require(length, abi.RDMA_NLDEV_ATTR_RES_MRLEN)
}
