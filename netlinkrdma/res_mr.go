package netlinkrdma

import (
	"iter"

	"github.com/goverbs/goverbs/internal/abi"
)

// MR is a memory region as the kernel keeps track of it.
type MR struct {
	Owner
	MRN    uint32       // its number
	RKey   Opt[uint32]  // with CAP_NET_ADMIN only
	LKey   Opt[uint32]  // with CAP_NET_ADMIN only
	IOVA   Opt[uint64]  // where it begins for the device; kernels from 6.1 to 7.2 don't tell
	Length uint64       // bytes
	PDN    Opt[uint32]  // PD, of a process's region
	Driver []DriverAttr // what only the driver knows the meaning of
}

var mrResource = tracked[MR]{
	name: "MR", op: abi.RDMA_NLDEV_CMD_RES_MR_GET,
	table: abi.RDMA_NLDEV_ATTR_RES_MR, entry: abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_MRN,
	parse: parseMR, number: func(m *MR) uint32 { return m.MRN },
}

// DumpMR goes through the memory regions of the device with this index, while
// the kernel lists them. After an error there are no more.
//
// C: rdma resource show mr
func (c *Client) DumpMR(device uint32, o *DumpOptions) iter.Seq2[MR, error] {
	return mrResource.dump(c, device, o)
}

// GetMR asks for the memory region with this number.
func (c *Client) GetMR(device, mrn uint32) (MR, error) { return mrResource.get(c, device, 0, mrn) }

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
