package driver

import (
	"io"

	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// Open is a request to open a device (GET_CONTEXT). Mapped memory belongs to the device.
type Open struct {
	Call
	Device Device
	// CompVectors is set by Do.
	CompVectors uint32
}

// Info describes a device that is being opened.
type Info struct {
	Name  string // mlx5_0
	ABI   uint32 // version of the driver's private ABI
	Ports uint32 // 0 if not known
}

// Device has the services that a provider may use at any time after Do of Open. Memory that it maps
// or allocates (registers, pages of doorbell records) is freed when the device is closed. Its
// methods may be called concurrently.
type Device interface {
	Memory
	Info() Info
	// Query returns the device's attributes. If out is nil, the kernel is asked only once for
	// each device. Otherwise out receives the driver's private bytes.
	Query(out []byte) (*verbs.DeviceAttr, error)
	// GID returns a slot of a port's GID table.
	GID(port int, index uint32) (*verbs.GIDEntry, error)
	// Invoke calls a method of a driver's own object, or a driver's method of another.
	Invoke(object, method uint16, attrs ...Attr) error
	// AllocPD creates a PD for the provider's own use with [Device.RegisterQueue].
	AllocPD(u UHW) (handle uint32, err error)
	DeallocPD(handle uint32) error
	// RegisterQueue registers a queue as a memory region, for drivers that identify queues by
	// a region.
	RegisterQueue(pd uint32, queue *mmap.Region, u UHW) (handle uint32, err error)
	DeregisterQueue(handle uint32) error
	// Doorbell returns the doorbell of a QP whose doorbell is a system call (POST_SEND
	// without work requests). Ring it with the send queue held. It allocates nothing,
	// and its error is a syscall.Errno.
	Doorbell(qp uint32) func() error
	// Notifier returns a function that arms a CQ by a system call (REQ_NOTIFY_CQ). The rules
	// of Doorbell apply.
	Notifier(cq uint32) func(solicitedOnly bool) error
	// Unbind records that a window of type 2 is no longer bound. It reports whether an open
	// window with the key was recorded as bound. Call it before a binding is invalidated, or
	// when a completion says that the peer has done so.
	Unbind(rkey uint32) bool
	// Read copies from the memory of an SGE with the key and address to b, for devices that
	// need the start of a message in the request. It reports whether the memory belongs to an
	// open region.
	Read(lkey uint32, addr uint64, b []byte) bool
	// Write copies b to the memory of an SGE with the key and address, for devices that leave
	// that to the provider. It reports whether the memory belongs to an open region that is
	// writable.
	Write(lkey uint32, addr uint64, b []byte) bool
}

// AllocPD is a request for a PD.
type AllocPD struct {
	Call
	// Handle is set by Do.
	Handle uint32
}

// RegMR is a request to register memory.
type RegMR struct {
	Call
	Addr uint64 // address of the memory
	IOVA uint64 // its address in SGEs and for peers, usually the same
}

// AllocMW is a request for a memory window.
type AllocMW struct {
	Call
	Type verbs.MWType
}

// CreateAH is a request for an address handle.
type CreateAH struct {
	Call
	Attr verbs.AHAttr
	PD   any // the data that AllocPD returned
}

// Destroyer is a CQ, a QP, an SRQ, or the data of a PD or an AH that takes part when it is destroyed.
// Destroy calls do once, which destroys the kernel's object, and returns do's error. If do fails,
// the object continues to exist and must work as before.
//
// No lock is held during Destroy. Until do returns nil, the object's methods may be called. After that,
// none is called, and the CQs of a QP or WQ have been cleaned. So free what the object uses after do.
type Destroyer interface{ Destroy(do func() error) error }

// Call is a call to the kernel. Package uverbs prepares it, and the provider makes it after its own
// preparations. Memory that the provider maps or allocates through the Call belongs to the object.
// Package uverbs frees it after the kernel has destroyed the object, even if the provider fails
// half-way.
type Call interface {
	Memory
	// Do makes the call, with private bytes and attributes of the kernel's driver. It stores
	// the response in the fields of the request. After an error it may be called again.
	Do(u UHW, extra ...Attr) error
}

// UHW has the private bytes of a call between a provider and its kernel driver. Either may be nil.
// Out should be zeroed and as long as the longest known response: some kernels write all of it, and
// others less, so that 0 means an old kernel.
type UHW struct{ In, Out []byte }

// Attr is a driver's own attribute of a call or of [Device.Invoke]. It has In (for a number or a set
// of flags, its bytes in native order), Out, or a Handle. With New, the kernel creates an object and
// the call sets Handle. Pass a slice of attributes then, and read the Handle from it.
type Attr struct {
	ID      uint16
	In, Out []byte
	Handle  uint32
	New     bool
}

// Memory maps and allocates memory that a provider shares with a device, for one object or for the
// whole device.
type Memory interface {
	// PageSize returns the bytes of a page of the kernel's, in which many offsets count.
	PageSize() int
	// Map maps device memory that the kernel offers at an offset, such as a queue.
	Map(offset int64, length int, prot mmap.Prot) (*mmap.Region, error)
	// MapPage maps registers, for stores only.
	MapPage(offset int64, length int) (*mmap.Page, error)
	// Alloc returns zeroed memory of whole pages for a device to read and write. Child
	// processes do not inherit it. opts may be nil.
	Alloc(length int, opts *mmap.AnonymousOptions) (*mmap.Region, error)
	// Free frees a Region or a Page before its owner does.
	Free(memory io.Closer) error
}
