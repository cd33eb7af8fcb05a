package mlx5

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
)

// Import implements driver.Importer. Static registers can't be shared, because each process
// would alternate between the halves of a register on its own.
func (provider) Import(r *driver.Open) (driver.Context, error) {
	c, err := newContext(r)
	if err != nil {
		return nil, err
	}
	if err := r.Do(driver.UHW{}, driver.Attr{ID: abi.MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, Out: abi.Bytes(&c.limits)}); err != nil {
		return nil, err
	}
	if c.limits.TotBfregs > 0 {
		return nil, fmt.Errorf("mlx5: the context has registers of its own: %w", syscall.EINVAL)
	}
	return c.start()
}

// ImportPD implements driver.PDImporter.
func (c *mlx5Context) ImportPD(handle uint32) (any, error) {
	var number uint32
	return pd{}, c.device.Invoke(abi.UVERBS_OBJECT_PD, abi.MLX5_IB_METHOD_PD_QUERY,
		driver.Attr{ID: abi.MLX5_IB_ATTR_QUERY_PD_HANDLE, Handle: handle},
		driver.Attr{ID: abi.MLX5_IB_ATTR_QUERY_PD_RESP_PDN, Out: abi.Bytes(&number)})
}
