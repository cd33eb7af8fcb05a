package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// ionic is a driver that the headers of Linux 6.12 do not know.
const ionic = 21

// Refusal is what a kernel driver answers to a call that lacks the private bytes which it
// wants: In of them, and room for Out.
type Refusal struct {
	In, Out int
	Err     error
}

// refusals are those of drivers of hardware that no package models.
var refusals = map[string]map[uint32]Refusal{
	"GET_CONTEXT": {
		abi.RDMA_DRIVER_MLX4:       {0, 16, syscall.EFAULT},
		abi.RDMA_DRIVER_EFA:        {8, 0, syscall.EOPNOTSUPP}, // where the device has batches
		abi.RDMA_DRIVER_IRDMA:      {8, 17, syscall.EINVAL},    // 16 bytes are of old hardware
		ionic:                      {8, 40, syscall.EINVAL},
		abi.RDMA_DRIVER_CXGB4:      {0, 12, syscall.EINVAL}, // it agrees, and breaks others
		abi.RDMA_DRIVER_OCRDMA:     {0, 80, syscall.EFAULT},
		abi.RDMA_DRIVER_MTHCA:      {0, 8, syscall.EFAULT},
		abi.RDMA_DRIVER_VMW_PVRDMA: {0, 8, syscall.EFAULT},
	},
	"ALLOC_PD": {
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
	want, ok := k.Device.driver.Refusals[call]
	if !ok {
		want, ok = refusals[call][k.Driver()]
	}
	if !ok {
		return nil
	}
	in, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	out, _ := r.Bytes(abi.UVERBS_ATTR_UHW_OUT)
	if len(in) < want.In || len(out) < want.Out {
		return want.Err
	}
	return nil
}
