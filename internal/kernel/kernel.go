// Package kernel finds and opens RDMA devices and the connection manager. They belong to the
// running kernel or to a registered kernel, which implements devices in this process.
// Packages uverbs and rdmacm use this package only, so programs find and use the devices of
// a registered kernel like any others.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/debug"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// Kernel has RDMA devices. Its methods may be called concurrently. Implementations are
// comparable.
type Kernel interface {
	// Netlink returns the kernel for a netlinkrdma.Client; nil is the running kernel. The
	// indexes of a registered kernel's devices begin at [FirstIndex].
	Netlink() netlinkrdma.Kernel
	// OpenDevice opens a device node. For another kernel's node the error is
	// [fs.ErrNotExist].
	OpenDevice(node string, rdev uint64) (ioctl.File, error)
	// OpenCM opens a connection manager's event channel.
	OpenCM() (CM, error)
	// Owns reports whether an address belongs to one of its devices, or is reached
	// through one.
	Owns(addr netip.Addr) bool
}

// FirstIndex is above the indexes that the running kernel gives to devices.
const FirstIndex = 1 << 30

var registry struct {
	sync.RWMutex
	kernels []Kernel
}

// Register adds a kernel until remove is called.
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

// Registered returns the registered kernels, oldest first.
func Registered() []Kernel {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Clone(registry.kernels)
}

// Owner returns the kernel that an address belongs to: the one that was registered last if
// several own it, and the running kernel if none does.
func Owner(addr netip.Addr) Kernel {
	for _, k := range slices.Backward(Registered()) {
		if k.Owns(addr) {
			return k
		}
	}
	return Running
}

type sourceKey struct{}

// WithSource returns a context with a function that chooses the source address of a dial. An
// address that is not valid leaves the choice to the kernel.
func WithSource(ctx context.Context, source func(dst netip.Addr) netip.Addr) context.Context {
	return context.WithValue(ctx, sourceKey{}, source)
}

// Source returns the source address for a dial to dst. It is not valid if the context has no
// choice.
func Source(ctx context.Context, dst netip.Addr) netip.Addr {
	if source, ok := ctx.Value(sourceKey{}).(func(netip.Addr) netip.Addr); ok {
		return source(dst)
	}
	return netip.Addr{}
}

// OpenDevice opens a device node of the kernel that has it. GOVERBS_DEBUG=ioctl prints the call.
func OpenDevice(node string, rdev uint64) (ioctl.File, error) {
	if !debug.Ioctl {
		return openDevice(node, rdev)
	}
	began := time.Now()
	f, err := openDevice(node, rdev)
	debug.Print("ioctl", began, "open "+node, err)
	return f, err
}

// OpenCM opens an event channel of a kernel's connection manager. GOVERBS_DEBUG=cm prints
// the call and all commands of the channel.
func OpenCM(k Kernel) (CM, error) {
	if !debug.CM {
		return k.OpenCM()
	}
	began := time.Now()
	c, err := k.OpenCM()
	debug.Print("cm", began, "open "+CMPath, err)
	if err != nil {
		return nil, err
	}
	return printedCM{c}, nil
}

func openDevice(node string, rdev uint64) (ioctl.File, error) {
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

// node is a kernel with one device, which is not listed and is opened by its path.
type node struct {
	path   string
	file   ioctl.File
	remove func()
}

var nodes atomic.Uint32

// Node returns a path for a device. OpenDevice opens the path once, and ignores the device
// number.
func Node(f ioctl.File) string {
	n := &node{path: fmt.Sprintf("in-process device %d", nodes.Add(1)), file: f}
	n.remove = Register(n)
	return n.path
}

// OpenDevice implements Kernel.
func (n *node) OpenDevice(path string, _ uint64) (ioctl.File, error) {
	if path != n.path {
		return nil, fs.ErrNotExist
	}
	n.remove()
	return n.file, nil
}

// Netlink implements Kernel.
func (n *node) Netlink() netlinkrdma.Kernel { return nothingListed{} }

// OpenCM implements Kernel.
func (n *node) OpenCM() (CM, error) { return nil, syscall.ENODEV }

// Owns implements Kernel.
func (n *node) Owns(netip.Addr) bool { return false }

type nothingListed struct{}

func (nothingListed) Execute(netlinkrdma.Request) ([][]byte, error) { return nil, nil }
