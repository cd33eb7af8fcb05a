package kernel

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"testing"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// plain is a kernel with one address and one node.
type plain struct {
	addr string
	node string
	err  error // of opening the node
}

func (p *plain) Netlink() netlinkrdma.Kernel { return nothingListed{} }
func (p *plain) OpenCM() (CM, error)         { return nil, nil }
func (p *plain) Owns(addr netip.Addr) bool   { return addr.String() == p.addr }
func (p *plain) OpenDevice(node string, _ uint64) (ioctl.File, error) {
	if node != p.node {
		return nil, fs.ErrNotExist
	}
	return nil, p.err
}

// TestOwner checks that an address belongs to the kernel that was registered last and owns it,
// and other addresses to the running kernel.
func TestOwner(t *testing.T) {
	first, second := &plain{addr: "10.0.0.1"}, &plain{addr: "10.0.0.1"}
	removeFirst, removeSecond := Register(first), Register(second)
	addr := netip.MustParseAddr("10.0.0.1")
	owner := func(want Kernel, addr netip.Addr) {
		t.Helper()
		if got := Owner(addr); got != want {
			t.Errorf("%v: %v, want %v", addr, got, want)
		}
	}
	owner(second, addr)
	owner(Running, netip.MustParseAddr("10.0.0.2"))
	removeSecond()
	removeSecond()
	owner(first, addr)
	removeFirst()
	owner(Running, addr)
}

// TestOpenDevice checks that a node's kernel opens it, and that its error is returned. The
// running kernel opens all other nodes.
func TestOpenDevice(t *testing.T) {
	defer Register(&plain{node: "another"})()
	defer Register(&plain{node: "mine", err: context.Canceled})()
	if _, err := OpenDevice("mine", 0); err != context.Canceled {
		t.Error(err)
	}
	_, err := OpenDevice(t.TempDir()+"/uverbs0", 0)
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// TestNode checks that a Node opens once.
func TestNode(t *testing.T) {
	type file struct{ ioctl.File }
	f := new(file)
	path := Node(f)
	if got, err := OpenDevice(path, 9); got != f || err != nil {
		t.Error(got, err)
	}
	if got, err := OpenDevice(path, 9); err == nil {
		t.Error("opened again:", got)
	}
	if n := len(Registered()); n > 0 {
		t.Error(n, "kernels left")
	}
}
