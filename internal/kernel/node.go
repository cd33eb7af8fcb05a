package kernel

import (
	"fmt"
	"io/fs"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// node is a kernel with one device that only those find who know its path.
type node struct {
	path   string
	file   ioctl.File
	remove func()
}

var nodes atomic.Uint32

// Node gives a device a path, which opens it once, whatever number it is asked for.
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
