package driver

import (
	"io"

	"github.com/goverbs/goverbs/mmap"
)

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
