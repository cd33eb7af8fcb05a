package fakeverbs

import (
	"os"
	"syscall"

	"github.com/goverbs/goverbs/mmap"
)

// memory is what one object's queues take up.
type memory struct {
	k       *Kernel
	keys    []int64
	regions []*mmap.Region
}

// offer is a queue's memory that user space may map.
type offer struct {
	bytes []byte
	own   *own // of this process, or nil
}

// alloc makes room for a queue, to be mapped at offset, and returns the kernel's
// view of it.
func (m *memory) alloc(k *Kernel, offset int64, size int) (*mmap.Region, error) {
	o, r, err := k.share(offset, roundUp(size))
	if err != nil {
		return nil, syscall.ENOMEM
	}
	k.memory[offset] = o
	m.k, m.keys, m.regions = k, append(m.keys, offset), append(m.regions, r)
	return r, nil
}

// share makes memory that user space may map, and returns the kernel's view of it.
func (k *Kernel) share(offset int64, size int) (o offer, r *mmap.Region, err error) {
	if k.Share == nil {
		o.own = newOwn(kernels, size)
		r, err = o.own.region(size)
	} else {
		r, err = k.Share(offset, size)
	}
	if err == nil {
		o.bytes = r.Bytes()
	}
	return o, r, err
}

// free takes the memory from the kernel; what user space mapped of it stays.
func (m *memory) free() {
	for i, r := range m.regions {
		delete(m.k.memory, m.keys[i])
		m.k.places.free(uint32(m.keys[i] / siwRoom))
		_ = r.Close()
	}
	*m = memory{}
}

// mapped is user space's view of the first bytes.
func (o offer) mapped(length int) (*mmap.Region, error) {
	if o.own != nil {
		return o.own.region(length)
	}
	return mmap.Wrap(o.bytes[:length])
}

func roundUp(n int) int { return (n + pageSize - 1) / pageSize * pageSize }

var pageSize = os.Getpagesize()
