package rdmacm

import (
	"errors"
	"fmt"
	"sync"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// devices are the RDMA devices that connections of this process have open, by
// kernel index: a thousand connections over one device open it once.
var devices = deviceTable{open: uverbs.OpenIndex, shared: make(map[uint32]*sharedDevice)}

type deviceTable struct {
	open func(index uint32, guid verbs.GUID) (*uverbs.Device, error)

	mu     sync.Mutex
	shared map[uint32]*sharedDevice
}

type sharedDevice struct {
	table *deviceTable
	index uint32
	dev   *uverbs.Device
	refs  int
}

// get opens the device or shares the one that is open. The GUID guards against an
// index that now stands for another device than it did.
func (t *deviceTable) get(index uint32, guid verbs.GUID) (*sharedDevice, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.shared[index]; s != nil && s.dev.Info().NodeGUID == guid {
		s.refs++
		return s, nil
	}
	dev, err := t.open(index, guid)
	if err != nil {
		return nil, err
	}
	s := &sharedDevice{table: t, index: index, dev: dev, refs: 1}
	t.shared[index] = s
	return s, nil
}

// put closes the device with its last user. It fails, and may be tried again,
// while objects are left on it.
func (s *sharedDevice) put() error {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if s.refs > 1 {
		s.refs--
		return nil
	}
	if err := s.dev.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
		return fmt.Errorf("rdmacm: %w", err)
	}
	if s.table.shared[s.index] == s {
		delete(s.table.shared, s.index)
	}
	return nil
}
