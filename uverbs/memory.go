package uverbs

import (
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/goverbs/goverbs/mmap"
)

// memory implements driver.Memory. It holds everything that a provider mapped or allocated
// for one object, or for the device. The owner frees it after the kernel has destroyed the
// object, even if the provider failed half-way.
type memory struct {
	file  *deviceFile
	owner *memory // during a replacement: the object's memory, which Free accepts too

	mu   sync.Mutex
	held []io.Closer  // regions and pages
	room [2]io.Closer // backing array of held; few objects have more
}

// PageSize implements driver.Memory.
func (m *memory) PageSize() int { return m.file.PageSize() }

// Map implements driver.Memory.
func (m *memory) Map(offset int64, length int, prot mmap.Prot) (*mmap.Region, error) {
	r, err := m.file.Map(offset, length, prot)
	return keep(m, r, err)
}

// MapPage implements driver.Memory.
func (m *memory) MapPage(offset int64, length int) (*mmap.Page, error) {
	p, err := m.file.MapPage(offset, length)
	return keep(m, p, err)
}

// Alloc implements driver.Memory.
func (m *memory) Alloc(length int, opts *mmap.AnonymousOptions) (*mmap.Region, error) {
	r, err := m.file.Alloc(length, opts)
	return keep(m, r, err)
}

func keep[T io.Closer](m *memory, c T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		m.held = m.room[:0]
	}
	m.held = append(m.held, c)
	m.file.hold(c)
	return c, nil
}

// Free implements driver.Memory.
func (m *memory) Free(c io.Closer) error {
	m.mu.Lock()
	i := slices.Index(m.held, c)
	if i >= 0 {
		m.held = slices.Delete(m.held, i, i+1)
	}
	m.mu.Unlock()
	switch {
	case i >= 0:
		return m.file.release(c)
	case m.owner != nil:
		return m.owner.Free(c)
	}
	return errNotHeld
}

var errNotHeld = errors.New("the memory belongs to another object, or was freed already")

// adopt moves everything that from holds to m.
func (m *memory) adopt(from *memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = append(m.held, from.held...)
	from.held = nil
}

func (m *memory) free() error {
	m.mu.Lock()
	var room [len(m.room)]io.Closer
	held := append(room[:0], m.held...)
	clear(m.held)
	m.held = nil
	m.mu.Unlock()
	var errs []error
	for _, c := range held {
		errs = append(errs, m.file.release(c))
	}
	return errors.Join(errs...)
}
