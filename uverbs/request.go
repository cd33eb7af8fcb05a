package uverbs

import (
	"errors"

	"github.com/goverbs/goverbs/mmap"
)

// queueMemory is what a provider mapped or allocated for one object. The object
// gives it back after the kernel let go of it, whatever the provider does.
type queueMemory struct {
	file    *deviceFile
	regions []*mmap.Region
}

// Map maps device memory that the kernel offered in answer to Create.
func (m *queueMemory) Map(offset int64, length int, prot mmap.Prot) (*mmap.Region, error) {
	r, err := m.file.Map(offset, length, prot)
	return m.keep(r, err)
}

// Alloc returns zeroed memory for a queue that the device reads and writes in
// place. It is for drivers that take the address of their queues.
func (m *queueMemory) Alloc(length int) (*mmap.Region, error) {
	r, err := mmap.Anonymous(length, nil)
	return m.keep(r, err)
}

func (m *queueMemory) keep(r *mmap.Region, err error) (*mmap.Region, error) {
	if err != nil {
		return nil, err
	}
	m.regions = append(m.regions, r)
	m.file.hold(r)
	return r, nil
}

func (m *queueMemory) free() error {
	var errs []error
	for _, r := range m.regions {
		errs = append(errs, m.file.release(r))
	}
	m.regions = nil
	return errors.Join(errs...)
}

// creation is one create call, carried out by the provider so that it can act
// before and after the kernel does.
type creation struct {
	queueMemory
	issue func(UHW) error
	done  bool
}

// Create has the kernel make the object. Call it once.
func (c *creation) Create(u UHW) error {
	if err := c.issue(u); err != nil {
		return err
	}
	c.done = true
	return nil
}

// ContextRequest asks a provider to open a device.
type ContextRequest struct {
	creation
	Info DeviceInfo

	dev *Device
}

// DeviceAttr tells what the device can do, after Create. The kernel is asked
// once a device; the provider must not change the answer.
func (r *ContextRequest) DeviceAttr() (*DeviceAttr, error) { return r.dev.Attr() }

// CQRequest asks a provider for a CQ, or for another size of it.
type CQRequest struct {
	creation
	// CQE is the number of entries asked for; the provider may raise it before
	// Create. After Create it is what the kernel granted.
	CQE uint32
	// Handle of the kernel's CQ, known after Create.
	Handle uint32

	dev *Device
}

// Notifier returns the way to arm the CQ of drivers that are told with a system
// call (REQ_NOTIFY_CQ), after Create. Use it with the CQ held.
func (r *CQRequest) Notifier() *Notifier { return newNotifier(r.dev, r.Handle) }

// SRQRequest asks a provider for an SRQ.
type SRQRequest struct {
	creation
	// MaxWR and MaxSGE as asked for, after Create as granted.
	MaxWR, MaxSGE uint32
	Handle        uint32
}

// SRQModifyRequest asks a provider to change an SRQ.
type SRQModifyRequest struct {
	creation
	// MaxWR is the number of receives asked for, and after Create granted; 0
	// leaves the size as it is.
	MaxWR uint32
}

// AHRequest asks a provider for an address handle.
type AHRequest struct {
	creation
	Attr AHAttr
	PD   *PD
}

// MRRequest asks a provider to register memory.
type MRRequest struct{ creation }

// abandon undoes a creation that the provider gave up with err: the kernel's
// object goes if it was made, then the memory.
func (c *creation) abandon(err error, destroy func() error) error {
	if c.done {
		err = errors.Join(err, destroy())
	}
	return errors.Join(err, c.free())
}
