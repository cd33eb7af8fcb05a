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

// alloc makes room for a queue, to be mapped at offset, and returns the kernel's
// view of it.
func (m *memory) alloc(k *Kernel, offset int64, size int) (*mmap.Region, error) {
	b := make([]byte, roundUp(size))
	r, err := mmap.Wrap(b)
	if err != nil {
		return nil, syscall.ENOMEM
	}
	k.memory[offset] = b
	m.k, m.keys, m.regions = k, append(m.keys, offset), append(m.regions, r)
	return r, nil
}

// free takes the memory from the kernel; what user space mapped of it stays.
func (m *memory) free() {
	for i, r := range m.regions {
		delete(m.k.memory, m.keys[i])
		_ = r.Close()
	}
	*m = memory{}
}

func roundUp(n int) int { return (n + pageSize - 1) / pageSize * pageSize }

var pageSize = os.Getpagesize()
