package netlinkrdma

import (
	"iter"

	"github.com/goverbs/goverbs/internal/abi"
)

// PD is a protection domain as the kernel tracks it.
type PD struct {
	Owner
	PDN              uint32       // its number
	Users            uint64       // number of objects in it
	LocalDMALKey     Opt[uint32]  // known with CAP_NET_ADMIN
	UnsafeGlobalRKey Opt[uint32]  // known with CAP_NET_ADMIN if it is the kernel's and has one
	CTXN             Opt[uint32]  // context of a process's PD
	Driver           []DriverAttr // the driver's own attributes
}

var pdResource = tracked[PD]{
	name: "PD", op: abi.RDMA_NLDEV_CMD_RES_PD_GET,
	table: abi.RDMA_NLDEV_ATTR_RES_PD, entry: abi.RDMA_NLDEV_ATTR_RES_PD_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_PDN,
	parse: parsePD, number: func(p *PD) uint32 { return p.PDN },
}

// PDs yields the protection domains of the device with this index while
// the kernel lists them. It ends after an error.
//
// C: rdma resource show pd
func (c *Client) PDs(device uint32, o *ListOptions) iter.Seq2[PD, error] {
	return pdResource.dump(c, device, o)
}

// PD returns the protection domain with this number.
func (c *Client) PD(device, pdn uint32) (PD, error) { return pdResource.get(c, device, 0, pdn) }

func parsePD(a *attributes, p *PD) {
	var pdn, users bool
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_RES_PDN:
			p.PDN, pdn = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_RES_USECNT:
			p.Users, users = a.uint64(), true
		case abi.RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY:
			p.LocalDMALKey = known(a.uint32())
		case abi.RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY:
			p.UnsafeGlobalRKey = known(a.uint32())
		case abi.RDMA_NLDEV_ATTR_RES_CTXN:
			p.CTXN = known(a.uint32())
		default:
			parseCommon(a, &p.Owner, &p.Driver)
		}
	}
	a.require(pdn, abi.RDMA_NLDEV_ATTR_RES_PDN)
	a.require(users, abi.RDMA_NLDEV_ATTR_RES_USECNT)
}
