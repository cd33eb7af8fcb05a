package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Dup has the file be one that another process got a descriptor of: it is closed when it was
// closed once more.
func (k *Kernel) Dup() *Kernel {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.others++
	return k
}

var contextAttrs = []attr{
	out(abi.UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, 4).optional(),
	out(abi.UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, 8).optional(),
}

// queryContext is for drivers that tell another process what they told the first.
func (k *Kernel) queryContext(r *ioctl.Request) error {
	m, ok := k.model.(interface{ queryContext(*ioctl.Request) })
	switch {
	case !k.context:
		return syscall.EINVAL
	case !ok:
		return syscall.EOPNOTSUPP
	}
	n := uint32(CompVectors)
	ioctl.Answer(r, abi.UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &n)
	m.queryContext(r)
	return nil
}

func (m *mlx5) queryContext(r *ioctl.Request) {
	b, _ := r.Bytes(abi.MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX)
	clear(b[copy(b, abi.Bytes(&m.told)):])
	m.shared = true
}

// mlx5QueryPD tells the device's number of a PD.
func (k *Kernel) mlx5QueryPD(r *ioctl.Request) error {
	h, _ := r.Value(abi.MLX5_IB_ATTR_QUERY_PD_HANDLE)
	if _, err := k.find("PD", uint32(h)); err != nil {
		return err
	}
	return answer(r, abi.MLX5_IB_ATTR_QUERY_PD_RESP_PDN, uint32(h)+1)
}
