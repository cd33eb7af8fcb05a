package netlinkrdma_test

import (
	"errors"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func TestDeviceAndPort(t *testing.T) {
	k := kernel()
	k.Devices[1].AdaptiveModeration = opt(false)
	k.Devices[1].NameAssign = opt(netlinkrdma.NameAssignType(1))
	c := netlinkrdma.Client{Kernel: k}
	d, err := c.Device(7)
	if diff := cmp.Diff(k.Devices[1], d); err != nil || diff != "" {
		t.Error(err, diff)
	}
	p, err := c.Port(7, 2)
	if diff := cmp.Diff(ibPort, p); err != nil || diff != "" {
		t.Error(err, diff)
	}
	beyond := uint64(1<<32 + 2) // its low bits are those of port 2
	if p, err := c.Port(7, int(beyond)); math.MaxInt > math.MaxInt32 && !errors.Is(err, netlinkrdma.ErrNotFound) {
		t.Error(p, err)
	}
	if _, err := c.Port(7, 3); !errors.Is(err, netlinkrdma.ErrNotFound) || !strings.Contains(err.Error(), "find port 3 of RDMA device 7") {
		t.Error(err)
	}
}

func TestRename(t *testing.T) {
	c := netlinkrdma.Client{Kernel: kernel()}
	if err := c.RenameDevice(3, "storage0"); err != nil {
		t.Fatal(err)
	}
	d, err := c.Device(3)
	if err != nil || d.Name != "storage0" {
		t.Error(d.Name, err)
	}
	ports, err := c.Ports(3)
	if err != nil || len(ports) != 1 || ports[0].DeviceName != "storage0" {
		t.Error(ports, err)
	}
	if err := c.RenameDevice(3, "mlx5_0"); !errors.Is(err, syscall.EEXIST) || !strings.Contains(err.Error(), "another device has that name") {
		t.Error(err)
	}
}

func TestRenameRefusesNames(t *testing.T) {
	k := kernel()
	c := netlinkrdma.Client{Kernel: k}
	for _, name := range []string{"", strings.Repeat("x", 64), "a/b", "a%d", "a\x00"} {
		if err := c.RenameDevice(3, name); !errors.Is(err, netlinkrdma.ErrInvalidName) || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := c.AddSubDevice(7, strings.Repeat("x", 16), netlinkrdma.DeviceSMI); !errors.Is(err, netlinkrdma.ErrInvalidName) {
		t.Error(err)
	}
	if len(k.Requests) != 0 {
		t.Errorf("%d requests", len(k.Requests))
	}
}

func TestAdaptiveModeration(t *testing.T) {
	c := netlinkrdma.Client{Kernel: kernel()}
	for _, on := range []bool{true, false} {
		if err := c.SetAdaptiveModeration(3, on); err != nil {
			t.Fatal(err)
		}
		if d, err := c.Device(3); err != nil || d.AdaptiveModeration != opt(on) {
			t.Error(d.AdaptiveModeration, err)
		}
	}
}

func TestMoveDevice(t *testing.T) {
	k := kernel()
	k.System.NetnsMode = netlinkrdma.NetnsShared
	c := netlinkrdma.Client{Kernel: k}
	to, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := c.MoveDevice(3, to); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "rdma system set netns exclusive") {
		t.Error(err)
	}
	if err := c.SetNetnsMode(netlinkrdma.NetnsExclusive); err != nil {
		t.Fatal(err)
	}
	if err := c.MoveDevice(3, to); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Device(3); !errors.Is(err, netlinkrdma.ErrNotFound) || len(k.Moved) != 1 || k.Moved[0].Index != 3 {
		t.Error(err, k.Moved)
	}
	if err := c.MoveDevice(3, nil); !errors.Is(err, os.ErrInvalid) {
		t.Error(err)
	}
	if err := c.MoveDevice(3, to); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "the file is not a network namespace") {
		t.Error(err)
	}
}

func TestSubDevice(t *testing.T) {
	c := netlinkrdma.Client{Kernel: kernel()}
	if err := c.AddSubDevice(7, "smi0", netlinkrdma.DeviceSMI); err != nil {
		t.Fatal(err)
	}
	d, err := c.DeviceByName("smi0")
	if err != nil || d.Parent != "mlx5_0" || d.Type != netlinkrdma.DeviceSMI {
		t.Errorf("%+v, %v", d, err)
	}
	if err := c.DeleteSubDevice(d.Index); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeviceByName("smi0"); !errors.Is(err, netlinkrdma.ErrNotFound) {
		t.Error(err)
	}
	for what, test := range map[string]struct {
		err  error
		want string
	}{
		"of siw":       {c.AddSubDevice(3, "smi0", netlinkrdma.DeviceSMI), "this device has no sub-devices of that type"},
		"of no device": {c.AddSubDevice(77, "smi0", netlinkrdma.DeviceSMI), "a kernel without sub-devices"},
		"of the host":  {c.DeleteSubDevice(7), "it is not a sub-device"},
		"gone":         {c.DeleteSubDevice(77), "no such device"},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) || errors.Is(test.err, netlinkrdma.ErrNotFound) {
			t.Errorf("%s: %v, want %q", what, test.err, test.want)
		}
	}
}

// TestSetRequests checks that the fake kernel parses requests for changes strictly.
func TestSetRequests(t *testing.T) {
	k := kernel()
	c := netlinkrdma.Client{Kernel: k}
	for what, call := range map[string]func() error{
		"\x02 \x01\x00\x02a\x00":      func() error { return c.RenameDevice(3, "a") },
		"\x02 \x01\x00\x54\x01":       func() error { return c.SetAdaptiveModeration(3, true) },
		"\x1a \x01\x00\x02b\x00c\x01": func() error { return c.AddSubDevice(7, "b", netlinkrdma.DeviceSMI) },
		"\x07 B\x01":                  func() error { return c.SetNetnsMode(netlinkrdma.NetnsShared) },
		"\x07 `\x00":                  func() error { return c.SetPrivilegedQKey(false) },
	} {
		k.Requests = nil
		if err := call(); err != nil {
			t.Errorf("%q: %v", what, err)
		}
		req := k.Requests[0]
		got := string([]byte{byte(req.Op), ' '})
		for _, a := range req.Attrs {
			if got += string([]byte{byte(a.Type)}); a.Type == abi.RDMA_NLDEV_ATTR_DEV_INDEX {
				a.Value = a.Value[1:2] // whatever the device
			}
			got += string(a.Value)
		}
		if got != what || req.Dump {
			t.Errorf("%q, want %q", got, what)
		}
	}
}

// counted counts the replies that its reader takes.
type counted struct {
	fixed
	taken int
}

func (c *counted) Stream(_ netlinkrdma.Request, f func([]byte) bool) error {
	for _, r := range c.fixed {
		if c.taken++; !f(r) {
			break
		}
	}
	return nil
}

// TestIsListedReadsNoMore checks that IsListed reads the list up to the device, that a malformed reply
// is an error, and that a list that changed meanwhile is read again.
func TestIsListedReadsNoMore(t *testing.T) {
	replies, err := kernel().Execute(netlinkrdma.Request{Op: abi.RDMA_NLDEV_CMD_GET, Dump: true})
	if err != nil {
		t.Fatal(err)
	}
	for index, want := range map[uint32]int{3: 1, 7: 2, 77: 2} {
		k := &counted{fixed: replies}
		listed, err := (&netlinkrdma.Client{Kernel: k}).IsListed(index)
		if err != nil || listed != (index != 77) || k.taken != want {
			t.Errorf("device %d: %t, %v after %d replies, want %d", index, listed, err, k.taken, want)
		}
	}
	bad := netlinkrdma.Client{Kernel: fixed{{1, 2, 3}}}
	if listed, err := bad.IsListed(3); listed || !errors.Is(err, netlinkrdma.ErrMalformed) {
		t.Errorf("a malformed reply: %t, %v", listed, err)
	}
	h := &halfway{Kernel: kernel(), n: 2, replies: 1}
	if listed, err := (&netlinkrdma.Client{Kernel: h}).IsListed(7); !listed || err != nil || h.asked != 3 {
		t.Errorf("a list that changed: %t, %v after %d dumps", listed, err, h.asked)
	}
}
