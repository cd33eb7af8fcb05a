package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// ionic is a driver that the headers of Linux 6.12 do not know.
const ionic = 21

// refusals are what kernel drivers answer to a call without the bytes that they
// want: how many in, room for how many out, and the error.
var refusals = map[string]map[uint32]struct {
	in, out int
	err     syscall.Errno
}{
	"GET_CONTEXT": {
		abi.RDMA_DRIVER_MLX5:       {8, 0, syscall.EINVAL},
		abi.RDMA_DRIVER_MLX4:       {0, 16, syscall.EFAULT},
		abi.RDMA_DRIVER_EFA:        {8, 0, syscall.EOPNOTSUPP}, // where the device has batches
		abi.RDMA_DRIVER_ERDMA:      {0, 40, syscall.EINVAL},
		abi.RDMA_DRIVER_IRDMA:      {8, 17, syscall.EINVAL}, // 16 bytes are of old hardware
		ionic:                      {8, 40, syscall.EINVAL},
		abi.RDMA_DRIVER_CXGB4:      {0, 12, syscall.EINVAL}, // it agrees, and breaks others
		abi.RDMA_DRIVER_OCRDMA:     {0, 80, syscall.EFAULT},
		abi.RDMA_DRIVER_MTHCA:      {0, 8, syscall.EFAULT},
		abi.RDMA_DRIVER_VMW_PVRDMA: {0, 8, syscall.EFAULT},
	},
	"ALLOC_PD": {
		abi.RDMA_DRIVER_MLX5:       {0, 4, syscall.EFAULT},
		abi.RDMA_DRIVER_MLX4:       {0, 4, syscall.EFAULT},
		abi.RDMA_DRIVER_IRDMA:      {0, 8, syscall.EINVAL},
		abi.RDMA_DRIVER_CXGB4:      {0, 4, syscall.EFAULT},
		abi.RDMA_DRIVER_OCRDMA:     {0, 24, syscall.EFAULT},
		abi.RDMA_DRIVER_MTHCA:      {0, 4, syscall.EFAULT},
		abi.RDMA_DRIVER_VMW_PVRDMA: {0, 8, syscall.EFAULT},
	},
	"REG_MR": {
		abi.RDMA_DRIVER_IRDMA: {8, 0, syscall.EINVAL},
	},
}

// insist refuses a call without the driver's own bytes, as its kernel driver does.
func (k *Kernel) insist(call string, r *ioctl.Request) error {
	want, ok := refusals[call][k.driver]
	if !ok {
		return nil
	}
	in, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	out, _ := r.Bytes(abi.UVERBS_ATTR_UHW_OUT)
	if len(in) < want.in || len(out) < want.out {
		return want.err
	}
	return nil
}
