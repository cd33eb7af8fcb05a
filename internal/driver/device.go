package driver

import (
	"io"

	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// Open asks a provider to open a device (GET_CONTEXT). Mapped memory belongs to the
// device.
type Open struct {
	Call
	Device Device
	// CompVectors is known after Do.
	CompVectors uint32
}

// Info is what is known of a device before it is opened.
type Info struct {
	Name  string // mlx5_0
	ABI   uint32 // version of the driver's private ABI
	Ports uint32 // 0 if not known
}

// Device is what a provider may use at any time after Open's Do. The memory that it maps
// and allocates (registers, pages of doorbell records) lives until the device is closed.
// Its methods may be called concurrently.
type Device interface {
	Memory
	Info() Info
	// Query tells what the device can do. With out nil the kernel is asked once a
	// device; otherwise out takes the driver's bytes.
	Query(out []byte) (*verbs.DeviceAttr, error)
	// GID returns a slot of a port's GID table.
	GID(port, index uint32) (*verbs.GIDEntry, error)
	// Invoke calls a method of a driver's own object, or a driver's method of another.
	Invoke(object, method uint16, attrs ...Attr) error
	// AllocPD makes a PD of the provider's own, for [Device.RegisterQueue].
	AllocPD(u UHW) (handle uint32, err error)
	DeallocPD(handle uint32) error
	// RegisterQueue makes a memory region of a queue, for drivers whose queues are
	// named by one.
	RegisterQueue(pd uint32, queue *mmap.Region, u UHW) (handle uint32, err error)
	DeregisterQueue(handle uint32) error
	// Doorbell returns the doorbell of a QP whose doorbell is a system call (POST_SEND
	// without work requests). Ring it with the send queue held. It allocates nothing,
	// and its error is a syscall.Errno.
	Doorbell(qp uint32) func() error
	// Notifier returns the way to arm a CQ that is armed by a system call
	// (REQ_NOTIFY_CQ), with the rules of Doorbell.
	Notifier(cq uint32) func(solicitedOnly bool) error
	// Unbind tells whether an open window of type 2 has the key and counts as bound,
	// which it does no more then: for a binding that is about to end, or that a
	// completion says the peer has ended.
	Unbind(rkey uint32) bool
	// Read takes bytes from where an SGE of that key and address has them, for devices that
	// want the start of a message in the request. It reports whether it is memory of an open
	// region.
	Read(lkey uint32, addr uint64, b []byte) bool
	// Write puts bytes where an SGE of that key and address has them, for devices that leave
	// that to the provider. It reports whether it is memory of an open region that may be
	// written.
	Write(lkey uint32, addr uint64, b []byte) bool
}

// AllocPD asks a provider for a PD.
type AllocPD struct {
	Call
	// Handle is known after Do.
	Handle uint32
}

// RegMR asks a provider to register memory.
type RegMR struct {
	Call
	Addr uint64 // where the memory lies
	IOVA uint64 // by what addresses SGEs and peers name it, mostly the same
}

// AllocMW asks a provider for a memory window.
type AllocMW struct {
	Call
	Type verbs.MWType
}

// CreateAH asks a provider for an address handle.
type CreateAH struct {
	Call
	Attr verbs.AHAttr
	PD   any // what AllocPD returned
}

// Destroyer may be a CQ, a QP, an SRQ, the data of a PD or of an AH. Destroy calls do
// once, which destroys the kernel's object, and returns do's error. When do fails the
// object lives on, and must go on as before.
//
// A CQ is held meanwhile. Of a QP, do returns with both its CQs held and cleaned; they
// are let go after Destroy.
type Destroyer interface{ Destroy(do func() error) error }

// Call is one call to the kernel. Package uverbs prepares it, and the provider makes
// it, after its own preparations. Memory that the provider maps or allocates for the call
// belongs to the object. Package uverbs frees it after the kernel let go of the object,
// also when the provider gives up half-way.
type Call interface {
	Memory
	// Do makes the call, with bytes that only the kernel's driver understands, and
	// with attributes of its own. After an error it may be called again. The fields
	// of the request hold the answer, as far as they have one.
	Do(u UHW, extra ...Attr) error
}

// UHW is what a call carries between a provider and its kernel driver; nil means that
// this side has nothing to say. Out should be zeroed and as long as the longest answer
// known: some kernels write all of it, others less, and 0 then means an old kernel.
type UHW struct{ In, Out []byte }

// Attr is an attribute of a driver's own, in a call or in [Device.Invoke]. It has In
// (a number or a set of flags is its bytes in native order), or Out, or a Handle. With
// New the kernel makes an object, and Handle is its handle after the call; for that,
// pass a slice of attributes that can be read afterwards.
type Attr struct {
	ID      uint16
	In, Out []byte
	Handle  uint32
	New     bool
}

// Memory is what a provider shares with a device for one object, or for all of it.
type Memory interface {
	// Map maps device memory that the kernel offered at an offset, such as a queue.
	Map(offset int64, length int, prot mmap.Prot) (*mmap.Region, error)
	// MapPage maps registers, for stores only.
	MapPage(offset int64, length int) (*mmap.Page, error)
	// Alloc returns zeroed memory of whole pages for a device to read and write. It
	// is kept out of child processes. opts may be nil.
	Alloc(length int, opts *mmap.AnonymousOptions) (*mmap.Region, error)
	// Free gives back a Region or a Page before its owner does.
	Free(memory io.Closer) error
}
