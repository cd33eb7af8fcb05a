package netlinkrdma

import (
	"fmt"
	"iter"
	"math"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
)

// FRMRPool is a pool of handles of memory regions that a driver keeps for
// processes that register, so that no command to the device is needed. A handle
// that nobody uses is freed when it has been in the pool for the aging period.
//
// C: struct ib_frmr_pool
type FRMRPool struct {
	Key FRMRPoolKey
	// KernelVendorKey is that of a pool of the kernel's own, which is shown with
	// DumpOptions.DriverDetails only; 0 for the pools of processes.
	KernelVendorKey uint64
	Queued          uint32 // handles that lie ready
	InUse           uint64 // handles that are memory regions at present
	MaxInUse        uint64 // the most that ever were
	Pinned          uint32 // handles that aging leaves in the pool
}

var frmrPoolResource = tracked[FRMRPool]{
	name: "FRMR pool", op: abi.RDMA_NLDEV_CMD_FRMR_POOLS_GET,
	table: abi.RDMA_NLDEV_ATTR_FRMR_POOLS, entry: abi.RDMA_NLDEV_ATTR_FRMR_POOL_ENTRY, parse: parseFRMRPool,
}

// DumpFRMRPools goes through the pools of the device with this index, while the
// kernel lists them; a driver without pools has none. Kernels as old as 6.12
// give [ErrNoFRMRPools]. After an error there are no more.
//
// C: rdma resource show frmr_pools
func (c *Client) DumpFRMRPools(device uint32, o *DumpOptions) iter.Seq2[FRMRPool, error] {
	return frmrPoolResource.dump(c, device, o)
}

// SetFRMRAging says how long a handle that nobody uses stays in a pool of the
// device with this index: whole seconds, of which the kernel takes 1 to 2³²-1.
// It needs CAP_NET_ADMIN.
//
// C: rdma resource set frmr_pools dev DEV aging SECONDS
func (c *Client) SetFRMRAging(device uint32, period time.Duration) error {
	what := fmt.Sprintf("set the aging period of FRMR pools of RDMA device %d to %v", device, period)
	seconds := period / time.Second
	if period%time.Second != 0 || seconds < 1 || seconds > math.MaxUint32 {
		return fmt.Errorf("netlinkrdma: %s: the kernel takes 1 to %d whole seconds: %w", what, uint32(math.MaxUint32), syscall.EINVAL)
	}
	return c.setFRMR(what, device, Attr{abi.RDMA_NLDEV_ATTR_FRMR_POOLS_AGING_PERIOD, uint32Value(uint32(seconds))})
}

// PinFRMR has the pool with this key keep at least so many handles, and makes
// those that are missing, and the pool; 0 lets all of them age. It needs
// CAP_NET_ADMIN.
//
// C: rdma resource set frmr_pools dev DEV pinned KEY HANDLES
func (c *Client) PinFRMR(device uint32, key FRMRPoolKey, handles uint32) error {
	what := fmt.Sprintf("pin %d handles of FRMR pool %v of RDMA device %d", handles, key, device)
	return c.setFRMR(what, device, Attr{abi.RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES, uint32Value(handles)}, key.attr())
}

func (c *Client) setFRMR(what string, device uint32, to ...Attr) error {
	_, err := c.call(what, Request{Op: abi.RDMA_NLDEV_CMD_FRMR_POOLS_SET, Attrs: append([]Attr{byIndex(device)}, to...)})
	return remedy(err, syscall.EINVAL, "the device is gone, has no pools or not of such a key, or the kernel is older than Linux 7.2")
}

func parseFRMRPool(a *attributes, p *FRMRPool) {
	var key, queued, inUse, maxInUse, pinned bool
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY:
			in := a.inside()
			parseFRMRPoolKey(&in, p)
			key = a.adopt(&in)
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_QUEUE_HANDLES:
			p.Queued, queued = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_IN_USE:
			p.InUse, inUse = a.uint64(), true
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_MAX_IN_USE:
			p.MaxInUse, maxInUse = a.uint64(), true
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES:
			p.Pinned, pinned = a.uint32(), true
		}
	}
	a.require(key, abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY)
	a.require(queued, abi.RDMA_NLDEV_ATTR_FRMR_POOL_QUEUE_HANDLES)
	a.require(inUse, abi.RDMA_NLDEV_ATTR_FRMR_POOL_IN_USE)
	a.require(maxInUse, abi.RDMA_NLDEV_ATTR_FRMR_POOL_MAX_IN_USE)
	a.require(pinned, abi.RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES)
}
