package fakeverbs

import (
	"os"
	"syscall"

	"github.com/goverbs/goverbs/mmap"
)

// QueueMemory is what one object's queues take up.
type QueueMemory struct {
	k       *Kernel
	keys    []int64
	regions []*mmap.Region
}

// Offer is a queue's memory that user space may map.
type Offer struct {
	Bytes []byte
	own   *own // of this process, or nil
}

// Alloc makes room for a queue, to be mapped at offset, and returns the kernel's
// view of it.
func (m *QueueMemory) Alloc(k *Kernel, offset int64, size int) (*mmap.Region, error) {
	o, r, err := k.ShareMemory(offset, RoundUp(size))
	if err != nil {
		return nil, syscall.ENOMEM
	}
	k.Offers[offset] = o
	m.k, m.keys, m.regions = k, append(m.keys, offset), append(m.regions, r)
	return r, nil
}

// ShareMemory makes memory that user space may map, and returns the kernel's view of it.
func (k *Kernel) ShareMemory(offset int64, size int) (o Offer, r *mmap.Region, err error) {
	if k.Share == nil {
		o.own = newOwn(kernels, size)
		r, err = o.own.region(size)
	} else {
		r, err = k.Share(offset, size)
	}
	if err == nil {
		o.Bytes = r.Bytes()
	}
	return o, r, err
}

// placer is a model that looks for free places to map queues at.
type placer interface{ Freed(key int64) }

// Free takes the memory from the kernel; what user space mapped of it stays.
func (m *QueueMemory) Free() {
	for i, r := range m.regions {
		delete(m.k.Offers, m.keys[i])
		if p, ok := m.k.Model.(placer); ok {
			p.Freed(m.keys[i])
		}
		_ = r.Close()
	}
	*m = QueueMemory{}
}

// Mapped is user space's view of the first bytes.
func (o Offer) Mapped(length int) (*mmap.Region, error) {
	if o.own != nil {
		return o.own.region(length)
	}
	return mmap.Wrap(o.Bytes[:length])
}

func RoundUp(n int) int { return (n + PageSize - 1) / PageSize * PageSize }

var PageSize = os.Getpagesize()
