//go:build vm

package kit

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// SetNetnsMode sets the mode, once namespaces that are being deleted are gone.
func SetNetnsMode(t *testing.T, mode netlinkrdma.NetnsMode) {
	t.Helper()
	var c netlinkrdma.Client
	Until(t, "without other namespaces", func() bool {
		err := c.SetNetnsMode(mode)
		if err != nil && !errors.Is(err, syscall.EBUSY) {
			t.Fatal(err)
		}
		return err == nil
	})
	if s := Must(c.System())(t); s.NetnsMode != mode {
		t.Errorf("%+v, want %v", s, mode)
	}
}

// Rdmalink runs a command line of rdmalink.
func Rdmalink(t *testing.T, line string) Output {
	t.Helper()
	return RunCommand(t, exec.Command(RdmalinkPath(t), strings.Fields(line)...))
}

// Iproute2 runs a command line of Debian's rdma.
func Iproute2(t *testing.T, line string) Output {
	t.Helper()
	return DebianRDMA.Run(t, line)
}

// Dummy creates a dummy network device that is up and has addresses such as 10.1.1.1/24.
// It is deleted when the test ends.
func Dummy(t *testing.T, name string, addrs ...string) {
	t.Helper()
	d := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: name}}
	if err := netlink.LinkAdd(d); err != nil {
		t.Fatalf("add dummy %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := netlink.LinkDel(d); err != nil {
			t.Errorf("delete dummy %s: %v", name, err)
		}
	})
	for _, a := range addrs {
		addr, err := netlink.ParseAddr(a)
		if err != nil {
			t.Fatal(err)
		}
		// No duplicate address detection: an IPv6 address is usable at once.
		addr.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(d, addr); err != nil {
			t.Fatalf("add %s to %s: %v", a, name, err)
		}
	}
	if err := netlink.LinkSetUp(d); err != nil {
		t.Fatalf("set %s up: %v", name, err)
	}
}

// Link adds an RDMA link that is deleted when the test ends. The test fails if objects
// are left on the link then.
func Link(t *testing.T, name, typ, netdev string) netlinkrdma.Device {
	t.Helper()
	if typ == "siw" {
		NeedSiw(t)
	}
	var c netlinkrdma.Client
	if err := c.AddLink(name, typ, netdev); err != nil {
		t.Fatal(err)
	}
	d, err := c.DeviceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	left := objects(t, d.Index) // rxe keeps a few for itself
	t.Cleanup(func() {
		// The kernel frees connections in the background.
		if now := uint64(0); !Eventually(func() bool { now = objects(t, d.Index); return now == left }) {
			t.Errorf("%s: %d objects left, %d when it was added", name, now, left)
		}
		if err := c.DeleteLink(d.Index); err != nil {
			t.Error(err)
		}
	})
	return d
}

// objects counts the objects of an RDMA device.
func objects(t *testing.T, device uint32) (n uint64) {
	t.Helper()
	resources, err := new(netlinkrdma.Client).Resources(device, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		n += r.Count
	}
	return n
}

// NewNetns moves the test to a new network namespace: its goroutine keeps
// its thread for good, and processes that it starts inherit the namespace.
func NewNetns(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
}

// RdmalinkPath returns the absolute path of the static binary.
func RdmalinkPath(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(RdmalinkBin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath(path); err != nil {
		t.Fatalf("%v: build it first: CGO_ENABLED=0 go build -o bin/rdmalink ./cmd/rdmalink", err)
	}
	return path
}
