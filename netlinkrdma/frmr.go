package netlinkrdma

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
)

// FRMRPool is a pool of memory region handles. A driver keeps it so that a registration
// needs no command to the device. A handle that stays unused for the aging period is freed.
//
// C: struct ib_frmr_pool
type FRMRPool struct {
	Key FRMRPoolKey
	// KernelVendorKey is the vendor key of one of the kernel's own pools, which are listed
	// only with ListOptions.DriverDetails. It is 0 for the pools of processes.
	KernelVendorKey uint64
	Queued          uint32 // free handles
	InUse           uint64 // handles in use by memory regions
	MaxInUse        uint64 // highest InUse so far
	Pinned          uint32 // handles that do not age
}

var frmrPoolResource = tracked[FRMRPool]{
	name: "FRMR pool", op: abi.RDMA_NLDEV_CMD_FRMR_POOLS_GET,
	table: abi.RDMA_NLDEV_ATTR_FRMR_POOLS, entry: abi.RDMA_NLDEV_ATTR_FRMR_POOL_ENTRY, parse: parseFRMRPool,
}

// FRMRPools yields the pools of the device with this index while the kernel lists them.
// It ends after an error. A driver without pools has none. Kernels before Linux 7.2 return
// [ErrNoFRMRPools].
//
// C: rdma resource show frmr_pools
func (c *Client) FRMRPools(device uint32, o *ListOptions) iter.Seq2[FRMRPool, error] {
	return frmrPoolResource.dump(c, device, o)
}

// SetFRMRAging sets how long an unused handle stays in a pool of the device with this index.
// The period must be a whole number of seconds from 1 to 2³²-1. The call needs
// CAP_NET_ADMIN.
//
// C: rdma resource set frmr_pools dev DEV aging SECONDS
func (c *Client) SetFRMRAging(device uint32, period time.Duration) error {
	op := operation{"set the aging period of", fmt.Sprintf("FRMR pools of %s to %v", numbered(device), period)}
	seconds := period / time.Second
	if period%time.Second != 0 || seconds < 1 || seconds > math.MaxUint32 {
		return op.failed(fmt.Errorf("the kernel takes 1 to %d whole seconds: %w", uint32(math.MaxUint32), syscall.EINVAL))
	}
	return c.setFRMR(op, device, Attr{abi.RDMA_NLDEV_ATTR_FRMR_POOLS_AGING_PERIOD, uint32Value(uint32(seconds))})
}

// PinFRMR sets how many handles of the pool with this key do not age. It creates the pool and
// the handles that are missing. The call needs CAP_NET_ADMIN.
//
// C: rdma resource set frmr_pools dev DEV pinned KEY HANDLES
func (c *Client) PinFRMR(device uint32, key FRMRPoolKey, handles uint32) error {
	op := operation{"pin", fmt.Sprintf("%d handles of FRMR pool %v of %s", handles, key, numbered(device))}
	return c.setFRMR(op, device, Attr{abi.RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES, uint32Value(handles)}, key.attr())
}

func (c *Client) setFRMR(op operation, device uint32, to ...Attr) error {
	_, err := c.call(op, Request{Op: abi.RDMA_NLDEV_CMD_FRMR_POOLS_SET, Attrs: append([]Attr{byIndex(device)}, to...)})
	return hint(err, syscall.EINVAL, "the device is gone or has no pool with this key, or the kernel is older than Linux 7.2")
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

// FRMRPoolKey has the properties that all memory regions of a pool share.
//
// C: struct ib_frmr_key
type FRMRPoolKey struct {
	VendorKey   uint64 // the driver's key
	DMABlocks   uint64 // largest number of memory blocks in a region
	AccessFlags uint32 // IB_ACCESS_…
	ATS         bool   // PCIe ATS translates the addresses
}

// String returns iproute2's form: vendor key, blocks, access flags and ATS in hexadecimal,
// for instance 0:1000:0:1.
func (k FRMRPoolKey) String() string {
	return fmt.Sprintf("%x:%x:%x:%x", k.VendorKey, k.DMABlocks, k.AccessFlags, boolValue(k.ATS)[0])
}

// ParseFRMRPoolKey parses the form that String returns. Like iproute2 it ignores further
// fields that are zero.
func ParseFRMRPoolKey(s string) (FRMRPoolKey, error) {
	var k FRMRPoolKey
	fields := strings.Split(s, ":")
	if len(fields) < 4 {
		return k, badKey(s, "want four fields, VENDOR_KEY:DMA_BLOCKS:ACCESS_FLAGS:ATS in hexadecimal")
	}
	bits := [...]int{64, 64, 32, 1}
	var values [len(bits)]uint64
	for i, field := range fields {
		size := 0 // further fields must be zero
		if i < len(bits) {
			size = bits[i]
		}
		v, err := strconv.ParseUint(strings.TrimPrefix(field, "0x"), 16, 64)
		switch {
		case err != nil:
			return k, badKey(s, fmt.Sprintf("%q is not a hexadecimal number of 64 bits", field))
		case size < 64 && v>>size != 0:
			return k, badKey(s, fmt.Sprintf("%q has more than %d bits", field, size))
		case i < len(values):
			values[i] = v
		}
	}
	return FRMRPoolKey{values[0], values[1], uint32(values[2]), values[3] == 1}, nil
}

func badKey(s, why string) error {
	return operation{"parse", fmt.Sprintf("key %q of an FRMR pool", s)}.failed(fmt.Errorf("%w: %s", syscall.EINVAL, why))
}

func (k FRMRPoolKey) attr() Attr {
	u64 := func(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }
	return nestedAttr(abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY,
		Attr{abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ATS, boolValue(k.ATS)},
		Attr{abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ACCESS_FLAGS, uint32Value(k.AccessFlags)},
		Attr{abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_VENDOR_KEY, u64(k.VendorKey)},
		Attr{abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_NUM_DMA_BLOCKS, u64(k.DMABlocks)})
}

func parseFRMRPoolKey(a *attributes, p *FRMRPool) {
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ATS:
			p.Key.ATS = a.uint8() != 0
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ACCESS_FLAGS:
			p.Key.AccessFlags = a.uint32()
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_VENDOR_KEY:
			p.Key.VendorKey = a.uint64()
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_NUM_DMA_BLOCKS:
			p.Key.DMABlocks = a.uint64()
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_KERNEL_VENDOR_KEY:
			p.KernelVendorKey = a.uint64()
		}
	}
}
