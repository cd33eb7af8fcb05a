package mlx5

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
)

// dm is device memory. It is mapped from the start of the page in which it begins.
type dm struct {
	region *mmap.Region
	start  uint64 // offset of its first byte in the region
}

// Device memory is mapped by the number of its first page. In the offset, the command is
// between the number's lower 8 bits and the others.
const (
	dmCommand = 8
	dmWord    = 4 // bytes of an access
)

// AllocDM implements driver.DMAllocator.
func (c *mlx5Context) AllocDM(r *driver.AllocDM) (driver.DM, error) {
	var start uint64
	var page uint16
	err := r.Do(driver.UHW{}, driver.Attr{ID: abi.MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, Out: abi.Bytes(&start)},
		driver.Attr{ID: abi.MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, Out: abi.Bytes(&page)})
	if err != nil {
		return nil, err
	}
	return mapDM(r, page, start, r.Length)
}

// ImportDM implements driver.DMImporter.
func (c *mlx5Context) ImportDM(r *driver.ImportDM) (driver.DM, error) {
	var start uint64
	var page uint16
	err := c.device.Invoke(abi.UVERBS_OBJECT_DM, abi.MLX5_IB_METHOD_DM_QUERY,
		driver.Attr{ID: abi.MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE, Handle: r.Handle},
		driver.Attr{ID: abi.MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, Out: abi.Bytes(&start)},
		driver.Attr{ID: abi.MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, Out: abi.Bytes(&page)},
		driver.Attr{ID: abi.MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, Out: abi.Bytes(&r.Length)})
	if err != nil {
		return nil, err
	}
	return mapDM(r, page, start, r.Length)
}

// mapDM maps as many whole pages as the length takes; the kernel offers no more.
func mapDM(m driver.Memory, page uint16, start, length uint64) (driver.DM, error) {
	size := uint64(m.PageSize())
	start %= size
	mapped := (length + size - 1) / size * size
	if length > math.MaxInt32 || start+length > mapped {
		return nil, fmt.Errorf("the kernel returned invalid device memory of %d bytes at offset %d of a page", length, start)
	}
	key := int64(page&0xff) | dmCommand<<8 | int64(page>>8)<<16
	region, err := m.Map(key*int64(size), int(mapped), mmap.ProtRead|mmap.ProtWrite)
	if err != nil {
		return nil, err
	}
	return &dm{region, start}, nil
}

// CopyTo implements driver.DM.
func (d *dm) CopyTo(offset uint64, b []byte) error {
	return d.words(offset, b, func(w *atomic.Uint32, b []byte) { w.Store(binary.NativeEndian.Uint32(b)) })
}

// CopyFrom implements driver.DM.
func (d *dm) CopyFrom(b []byte, offset uint64) error {
	return d.words(offset, b, func(w *atomic.Uint32, b []byte) { binary.NativeEndian.PutUint32(b, w.Load()) })
}

// words calls do for each word from an offset on, with the bytes of b that belong to it.
func (d *dm) words(offset uint64, b []byte, do func(w *atomic.Uint32, b []byte)) error {
	if (offset|uint64(len(b)))%dmWord != 0 {
		return syscall.EINVAL
	}
	for i := 0; i < len(b); i += dmWord {
		w, err := d.region.Word(int(d.start+offset) + i)
		if err != nil {
			return err
		}
		do(w, b[i:])
	}
	return nil
}
