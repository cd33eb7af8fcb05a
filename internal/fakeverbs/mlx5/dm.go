package mlx5

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// The device's memory is allocated in blocks. Each DM has its own pages.
const (
	maxDM      = 256 << 10
	logDMBlock = 6
	maxDMAlign = logDMBlock + 6 // the largest alignment
	dmCommand  = 8
	dmAccess   = abi.IB_UVERBS_ACCESS_LOCAL_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_READ |
		abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC | abi.IB_UVERBS_ACCESS_ZERO_BASED
)

// mlx5DM is the memory of a DM that can be mapped.
type mlx5DM struct {
	offer  fakeverbs.Offer
	region *mmap.Region
}

// pages records which pages of the device's memory are in use.
type pages [maxDM / 4096]bool

// take allocates n consecutive pages.
func (p *pages) take(n int) (first int, ok bool) {
	run := 0
	for i := range p {
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

func (p *pages) set(first, n int, used bool) {
	for i := range n {
		p[first+i] = used
	}
}

// AllocDM allocates device memory. If there is room, the memory doesn't begin at the start of its first
// page, as on a device whose memory isn't aligned to pages.
func (m *model) AllocDM(dm *fakeverbs.DM, r *ioctl.Request) (free func(), err error) {
	if kind, ok := r.Value(abi.MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE); ok && kind != abi.MLX5_IB_UAPI_DM_TYPE_MEMIC {
		return nil, syscall.EOPNOTSUPP
	}
	if dm.LogAlign > maxDMAlign {
		return nil, syscall.EINVAL
	}
	d, pages := m.k.Device, (int(dm.Length)+m.k.PageSize()-1)/m.k.PageSize()
	d.Lock()
	defer d.Unlock()
	first, ok := shared(d).dms.take(pages)
	if !ok {
		return nil, syscall.ENOMEM
	}
	key := m.mmapKey(dmCommand, first)
	o, region, err := m.k.ShareMemory(key, pages*m.k.PageSize())
	if err != nil {
		shared(d).dms.set(first, pages, false)
		return nil, err
	}
	m.dms[key] = mlx5DM{o, region}
	dm.SetMemory(region)
	if behind := uint64(1) << max(dm.LogAlign, logDMBlock); behind+dm.Length <= uint64(region.Len()) {
		dm.Start = behind
	}
	dm.Page = uint16(first)
	ioctl.Answer(r, abi.MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, &dm.Start)
	ioctl.Answer(r, abi.MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, &dm.Page)
	return func() { m.freeDM(key, first, pages) }, nil
}

func (m *model) freeDM(key int64, first, pages int) {
	_ = m.dms[key].region.Close()
	delete(m.dms, key)
	d := m.k.Device
	d.Lock()
	defer d.Unlock()
	shared(d).dms.set(first, pages, false)
}

func (*model) DMAccess() uint64 { return dmAccess }

// queryDM returns the information for mapping a DM to another process that has the descriptor.
func queryDM(k *fakeverbs.Kernel, r *ioctl.Request) error {
	_, dm, err := fakeverbs.FindIn[*fakeverbs.DM](k, "DM", r, abi.MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE)
	if err != nil {
		return err
	}
	if err := fakeverbs.Answer(r, abi.MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, dm.Start); err != nil {
		return err
	}
	if err := fakeverbs.Answer(r, abi.MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, dm.Page); err != nil {
		return err
	}
	return fakeverbs.Answer(r, abi.MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, dm.Length)
}
