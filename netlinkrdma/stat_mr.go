package netlinkrdma

import (
	"iter"

	"github.com/goverbs/goverbs/internal/abi"
)

// MRCounters are the counters of one memory region. There are none on drivers
// that don't count by region; mlx5 counts page faults of on-demand paging.
type MRCounters struct {
	MRN      uint32
	Counters []Counter
}

var mrCounterResource = tracked[MRCounters]{
	name: "MR counter", op: abi.RDMA_NLDEV_CMD_STAT_GET, stat: abi.RDMA_NLDEV_ATTR_RES_MR,
	table: abi.RDMA_NLDEV_ATTR_RES_MR, entry: abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_MRN,
	parse: parseMRCounters, number: func(m *MRCounters) uint32 { return m.MRN },
}

// DumpMRCounters goes through the memory regions of the device with this index
// and what is counted of each, while the kernel lists them. After an error
// there are no more.
//
// C: rdma statistic mr show
func (c *Client) DumpMRCounters(device uint32, o *DumpOptions) iter.Seq2[MRCounters, error] {
	return mrCounterResource.dump(c, device, o)
}

// GetMRCounters asks for the counters of the memory region with this number.
func (c *Client) GetMRCounters(device, mrn uint32) (MRCounters, error) {
	return mrCounterResource.get(c, device, 0, mrn)
}

func parseMRCounters(a *attributes, m *MRCounters) {
	mrn := false
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_RES_MRN:
			m.MRN, mrn = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS:
			m.Counters = parseCounters(a)
		}
	}
	a.require(mrn, abi.RDMA_NLDEV_ATTR_RES_MRN)
}
