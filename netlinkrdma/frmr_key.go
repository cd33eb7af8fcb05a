package netlinkrdma

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// FRMRPoolKey tells what the memory regions of a pool have in common.
//
// C: struct ib_frmr_key
type FRMRPoolKey struct {
	VendorKey   uint64 // the driver's
	DMABlocks   uint64 // blocks of memory that a region holds at most
	AccessFlags uint32 // IB_ACCESS_…
	ATS         bool   // addresses are translated by PCIe's ATS
}

// String gives iproute2's form, in hexadecimal: vendor key, blocks, access
// flags, ATS, for instance 0:1000:0:1.
func (k FRMRPoolKey) String() string {
	return fmt.Sprintf("%x:%x:%x:%x", k.VendorKey, k.DMABlocks, k.AccessFlags, boolValue(k.ATS)[0])
}

// ParseFRMRPoolKey reads what String gives. As iproute2 it takes further fields
// that are zero.
func ParseFRMRPoolKey(s string) (FRMRPoolKey, error) {
	var k FRMRPoolKey
	fields := strings.Split(s, ":")
	if len(fields) < 4 {
		return k, badKey(s, "it has four fields, VENDOR_KEY:DMA_BLOCKS:ACCESS_FLAGS:ATS in hexadecimal")
	}
	bits := [...]int{64, 64, 32, 1}
	var values [len(bits)]uint64
	for i, field := range fields {
		size := 0 // what nobody knows has to be zero
		if i < len(bits) {
			size = bits[i]
		}
		v, err := strconv.ParseUint(strings.TrimPrefix(field, "0x"), 16, 64)
		switch {
		case err != nil:
			return k, badKey(s, fmt.Sprintf("%q is no number of 64 bits in hexadecimal", field))
		case size < 64 && v>>size != 0:
			return k, badKey(s, fmt.Sprintf("%q has more than %d bits", field, size))
		case i < len(values):
			values[i] = v
		}
	}
	return FRMRPoolKey{values[0], values[1], uint32(values[2]), values[3] == 1}, nil
}

func badKey(s, why string) error {
	return fmt.Errorf("netlinkrdma: key %q of an FRMR pool: %w: %s", s, syscall.EINVAL, why)
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
