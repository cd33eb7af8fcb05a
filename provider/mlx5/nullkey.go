package mlx5

import "github.com/goverbs/goverbs/internal/abi"

// NullKey implements driver.NullKeyer.
func (c *mlx5Context) NullKey() (lkey uint32, ok bool) {
	return c.limits.DumpFillMkey, c.limits.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY != 0
}
