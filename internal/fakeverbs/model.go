package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// model is a driver: it answers what the core passes on unread.
type model interface {
	context(*ioctl.Request) error
	createCQ(*CQ, *ioctl.Request) error
	createQP(*QP, *ioctl.Request) error
	createSRQ(*SRQ, *ioctl.Request) error
	regMR(handle uint32, r *ioctl.Request) (key uint32, err error)
	modifyQP(qp *QP, state uint8) error
	doorbell(*QP) error
}

// bare is a driver without queues in shared memory: it agrees to everything.
type bare struct{}

func (bare) context(*ioctl.Request) error         { return nil }
func (bare) createCQ(*CQ, *ioctl.Request) error   { return nil }
func (bare) createQP(*QP, *ioctl.Request) error   { return nil }
func (bare) createSRQ(*SRQ, *ioctl.Request) error { return nil }
func (bare) doorbell(*QP) error                   { return nil }

func (bare) regMR(h uint32, _ *ioctl.Request) (uint32, error) { return h<<8 | 1, nil }

func (bare) modifyQP(qp *QP, state uint8) error {
	qp.state = state
	return nil
}

// memory is what one object's queues take up.
type memory struct {
	k       *Kernel
	keys    []int64
	regions []*mmap.Region
}

// alloc makes room for a queue, at the lowest free offset, as the kernel's view of it.
func (m *memory) alloc(k *Kernel, size int) (int64, *mmap.Region, error) {
	key := int64(0)
	for k.memory[key] != nil {
		key += int64(pageSize)
	}
	b := make([]byte, roundUp(size))
	r, err := mmap.Wrap(b)
	if err != nil {
		return 0, nil, syscall.ENOMEM
	}
	k.memory[key] = b
	m.k, m.keys, m.regions = k, append(m.keys, key), append(m.regions, r)
	return key, r, nil
}

func (m *memory) free() {
	for i, r := range m.regions {
		delete(m.k.memory, m.keys[i])
		_ = r.Close()
	}
	*m = memory{}
}
