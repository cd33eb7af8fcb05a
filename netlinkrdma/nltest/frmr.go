package nltest

import (
	"encoding/binary"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

var frmrKind = objectKind{table: abi.RDMA_NLDEV_ATTR_FRMR_POOLS, entry: abi.RDMA_NLDEV_ATTR_FRMR_POOL_ENTRY}

// frmrGet lists the pools. It includes the kernel's own pools with DRIVER_DETAILS only.
func (k *Kernel) frmrGet(req netlinkrdma.Request) ([][]byte, error) {
	i, err := k.device(req)
	if err != nil || !req.Dump {
		return nil, syscall.EINVAL
	}
	details, _ := byteOf(req, abi.RDMA_NLDEV_ATTR_DRIVER_DETAILS)
	var list []object
	for _, p := range k.Objects[k.Devices[i].Index].FRMRPools {
		if p.KernelVendorKey == 0 || details != 0 {
			list = append(list, object{attrs: EncodeFRMRPool(p)})
		}
	}
	return frmrKind.dump(k.Devices[i], list, 0), nil
}

// frmrSet sets the aging period, or pins handles and creates missing ones.
func (k *Kernel) frmrSet(req netlinkrdma.Request) error {
	i, err := k.device(req)
	if err != nil {
		return err
	}
	index := k.Devices[i].Index
	o := k.Objects[index]
	aging := number(req, abi.RDMA_NLDEV_ATTR_FRMR_POOLS_AGING_PERIOD)
	switch {
	case o.FRMRPools == nil:
		return syscall.EINVAL
	case has(req, abi.RDMA_NLDEV_ATTR_FRMR_POOLS_AGING_PERIOD) && aging == 0:
		return syscall.EINVAL
	case aging != 0:
		if k.FRMRAging == nil {
			k.FRMRAging = make(map[uint32]uint32)
		}
		k.FRMRAging[index] = aging
		return nil
	}
	key, err := frmrKey(req)
	if err != nil {
		return err
	}
	o.FRMRPools = slices.Clone(o.FRMRPools)
	at := slices.IndexFunc(o.FRMRPools, func(p netlinkrdma.FRMRPool) bool { return p.Key == key && p.KernelVendorKey == 0 })
	if at < 0 {
		at = len(o.FRMRPools)
		o.FRMRPools = append(o.FRMRPools, netlinkrdma.FRMRPool{Key: key})
	}
	p := &o.FRMRPools[at]
	p.Pinned = number(req, abi.RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES)
	if missing := int64(p.Pinned) - int64(p.InUse) - int64(p.Queued); missing > 0 {
		p.Queued += uint32(missing)
	}
	k.Objects[index] = o
	return nil
}

// frmrKey parses the key, which must have the nested flag.
func frmrKey(req netlinkrdma.Request) (netlinkrdma.FRMRPoolKey, error) {
	i := slices.IndexFunc(req.Attrs, func(a netlinkrdma.Attr) bool { return a.Type == nested|abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY })
	if i < 0 {
		return netlinkrdma.FRMRPoolKey{}, syscall.EINVAL
	}
	var k netlinkrdma.FRMRPoolKey
	for b := req.Attrs[i].Value; len(b) >= 4; {
		n := int(binary.NativeEndian.Uint16(b))
		v := append(b[4:n:n], make([]byte, 8)...)
		switch binary.NativeEndian.Uint16(b[2:]) {
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ATS:
			k.ATS = v[0] != 0
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ACCESS_FLAGS:
			k.AccessFlags = binary.NativeEndian.Uint32(v)
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_VENDOR_KEY:
			k.VendorKey = binary.NativeEndian.Uint64(v)
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_NUM_DMA_BLOCKS:
			k.DMABlocks = binary.NativeEndian.Uint64(v)
		default:
			return k, syscall.EINVAL
		}
		b = b[(n+3)&^3:]
	}
	return k, nil
}

// EncodeFRMRPool returns the attributes with which the kernel lists a pool. Its key has the
// nested flag, as in the kernel.
func EncodeFRMRPool(p netlinkrdma.FRMRPool) []byte {
	key := putBool(nil, abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ATS, p.Key.ATS)
	key = putUint32(key, abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ACCESS_FLAGS, p.Key.AccessFlags)
	key = putUint64(key, abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_VENDOR_KEY, p.Key.VendorKey)
	key = putUint64(key, abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_NUM_DMA_BLOCKS, p.Key.DMABlocks)
	if p.KernelVendorKey != 0 {
		key = putUint64(key, abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_KERNEL_VENDOR_KEY, p.KernelVendorKey)
	}
	b := put(nil, nested|abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY, key)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_FRMR_POOL_QUEUE_HANDLES, p.Queued)
	b = putUint64(b, abi.RDMA_NLDEV_ATTR_FRMR_POOL_MAX_IN_USE, p.MaxInUse)
	b = putUint64(b, abi.RDMA_NLDEV_ATTR_FRMR_POOL_IN_USE, p.InUse)
	return putUint32(b, abi.RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES, p.Pinned)
}
