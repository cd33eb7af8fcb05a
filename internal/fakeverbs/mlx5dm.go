package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// The device's memory is given out in blocks, and each DM has pages of its own.
const (
	mlx5MaxDM      = 256 << 10
	mlx5LogDMBlock = 6
	mlx5MaxDMAlign = mlx5LogDMBlock + 6 // what the device can align to
	mlx5DMKey      = 8 << 8             // command 8, in pages
	mlx5DMAccess   = abi.IB_UVERBS_ACCESS_LOCAL_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_READ |
		abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC | abi.IB_UVERBS_ACCESS_ZERO_BASED
)

// mlx5DM is what a DM is mapped as.
type mlx5DM struct {
	offer  offer
	region *mmap.Region
}

// mlx5Pages are those of the device's memory that are in use.
type mlx5Pages [mlx5MaxDM / 4096]bool

// take finds n pages in a row.
func (p *mlx5Pages) take(n int) (first int, ok bool) {
	run := 0
	for i := range mlx5MaxDM / pageSize {
		if run++; p[i] {
			run = 0
		}
		if run == n {
			p.set(i+1-n, n, true)
			return i + 1 - n, true
		}
	}
	return 0, false
}

func (p *mlx5Pages) set(first, n int, used bool) {
	for i := range n {
		p[first+i] = used
	}
}

// allocDM has memory begin behind the start of its first page where there is room, as on a
// device whose memory does not begin at a page.
func (m *mlx5) allocDM(dm *DM, r *ioctl.Request) (free func(), err error) {
	if kind, ok := r.Value(abi.MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE); ok && kind != abi.MLX5_IB_UAPI_DM_TYPE_MEMIC {
		return nil, syscall.EOPNOTSUPP
	}
	if dm.LogAlign > mlx5MaxDMAlign {
		return nil, syscall.EINVAL
	}
	d, pages := m.k.device, roundUp(int(dm.Length))/pageSize
	d.mu.Lock()
	defer d.mu.Unlock()
	first, ok := d.mlx5DMs.take(pages)
	if !ok {
		return nil, syscall.ENOMEM
	}
	key := int64(mlx5DMKey+first) * int64(pageSize)
	o, region, err := m.k.share(key, pages*pageSize)
	if err != nil {
		d.mlx5DMs.set(first, pages, false)
		return nil, err
	}
	m.dms[key] = mlx5DM{o, region}
	dm.memory.add(piece{0, region, true})
	if behind := uint64(1) << max(dm.LogAlign, mlx5LogDMBlock); behind+dm.Length <= uint64(region.Len()) {
		dm.start = behind
	}
	dm.page = uint16(first)
	ioctl.Answer(r, abi.MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, &dm.start)
	ioctl.Answer(r, abi.MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, &dm.page)
	return func() { m.freeDM(key, first, pages) }, nil
}

func (m *mlx5) freeDM(key int64, first, pages int) {
	_ = m.dms[key].region.Close()
	delete(m.dms, key)
	d := m.k.device
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mlx5DMs.set(first, pages, false)
}

func (*mlx5) dmAccess() uint64 { return mlx5DMAccess }

// mlx5QueryDM tells another process of the descriptor how to map a DM.
func (k *Kernel) mlx5QueryDM(r *ioctl.Request) error {
	_, dm, err := findIn[*DM](k, "DM", r, abi.MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE)
	if err != nil {
		return err
	}
	if err := answer(r, abi.MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, dm.start); err != nil {
		return err
	}
	if err := answer(r, abi.MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, dm.page); err != nil {
		return err
	}
	return answer(r, abi.MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, dm.Length)
}
