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
}

// CQRequest asks a provider for a CQ.
type CQRequest struct {
	creation
	// CQE is the number of entries asked for; the provider may raise it before
	// Create. After Create it is what the kernel granted.
	CQE uint32
	// Handle of the kernel's CQ, known after Create.
	Handle uint32
}

// SRQRequest asks a provider for an SRQ.
type SRQRequest struct {
	creation
	// MaxWR and MaxSGE as asked for, after Create as granted.
	MaxWR, MaxSGE uint32
	Handle        uint32
}

// MRRequest asks a provider to register memory.
type MRRequest struct{ creation }

// QPRequest asks a provider for a QP.
type QPRequest struct {
	creation
	// Type of the QP. It has a receive queue of its own unless HasSRQ.
	Type   QPType
	HasSRQ bool
	// Cap as asked for, after Create as the kernel granted it. The provider
	// lowers or raises what its queues really hold.
	Cap QPCap
	// SignalAll is set when every send completes with a CQE.
	SignalAll bool
	// Handle and Num are known after Create.
	Handle, Num uint32
	// SendFlush and RecvFlush take completions that the provider makes itself.
	SendFlush, RecvFlush Flusher

	qp *QP
}

// Doorbell returns the doorbell of drivers whose doorbell is a system call
// (POST_SEND without work requests). Ring it with the send queue held, after
// Create. It allocates nothing.
func (r *QPRequest) Doorbell() *Doorbell { return newDoorbell(r.qp.dev, r.Handle) }

// MoveToError puts the QP into the error state in the kernel.
func (r *QPRequest) MoveToError() error { return r.qp.modifyState(QPStateErr) }

// Flusher adds completions to a CQ behind those that the device wrote.
type Flusher struct {
	cq *CQ
}

// Flush completes a work request that will never be carried out.
func (f Flusher) Flush(wrID uint64, op WCOpcode, qpn uint32) {
	f.cq.complete(WC{WRID: wrID, Opcode: op, QPN: qpn, Status: StatusWRFlushErr})
}

// Full tells that nobody polls the CQ, which holds as many completions made by
// providers as it has entries.
func (f Flusher) Full() bool { return f.cq.madeFull() }

// abandon undoes a creation that the provider gave up with err: the kernel's
// object goes if it was made, then the memory.
func (c *creation) abandon(err error, destroy func() error) error {
	if c.done {
		err = errors.Join(err, destroy())
	}
	return errors.Join(err, c.free())
}
