package kernel

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"sync"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// Kernel has RDMA devices. Its methods may be called concurrently. It is a pointer, or
// comparable otherwise.
type Kernel interface {
	// Netlink lists the devices; nil asks the running kernel. The indexes of a
	// registered kernel's devices begin at [FirstIndex].
	Netlink() netlinkrdma.Kernel
	// OpenDevice opens a device node. A node of another kernel's is [fs.ErrNotExist].
	OpenDevice(node string, rdev uint64) (ioctl.File, error)
	// OpenCM opens a connection manager's event channel.
	OpenCM() (CM, error)
	// Owns tells whether an address is of one of its devices, or reached through one.
	Owns(addr netip.Addr) bool
}

// FirstIndex is above the indexes that the running kernel gives to devices.
const FirstIndex = 1 << 30

var registry struct {
	sync.RWMutex
	kernels []Kernel
}

// Register adds a kernel to the running one, until remove is called.
func Register(k Kernel) (remove func()) {
	registry.Lock()
	defer registry.Unlock()
	registry.kernels = append(registry.kernels, k)
	return sync.OnceFunc(func() {
		registry.Lock()
		defer registry.Unlock()
		i := slices.Index(registry.kernels, k)
		registry.kernels = slices.Delete(registry.kernels, i, i+1)
	})
}

// Registered returns the kernels that were registered, oldest first.
func Registered() []Kernel {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Clone(registry.kernels)
}

// Owner returns the kernel that an address belongs to: the last one registered that
// says so, or else the running one.
func Owner(addr netip.Addr) Kernel {
	for _, k := range slices.Backward(Registered()) {
		if k.Owns(addr) {
			return k
		}
	}
	return Running
}

type sourceKey struct{}

// WithSource returns a context for programs of one host: source chooses the address that they
// dial from. An address that is not valid leaves the choice to the kernel.
func WithSource(ctx context.Context, source func(dst netip.Addr) netip.Addr) context.Context {
	return context.WithValue(ctx, sourceKey{}, source)
}

// Source returns the address to dial dst from, or one that is not valid.
func Source(ctx context.Context, dst netip.Addr) netip.Addr {
	if source, ok := ctx.Value(sourceKey{}).(func(netip.Addr) netip.Addr); ok {
		return source(dst)
	}
	return netip.Addr{}
}

// OpenDevice opens a device node of whichever kernel it is.
func OpenDevice(node string, rdev uint64) (ioctl.File, error) {
	for _, k := range Registered() {
		if f, err := k.OpenDevice(node, rdev); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return Running.OpenDevice(node, rdev)
}

// Running is the running kernel.
var Running Kernel = running{}

type running struct{}

func (running) Netlink() netlinkrdma.Kernel { return nil }
func (running) OpenCM() (CM, error)         { return openCM() }
func (running) Owns(netip.Addr) bool        { return true }

func (running) OpenDevice(node string, rdev uint64) (ioctl.File, error) {
	return ioctl.Open(node, rdev)
}
