package netlinkrdma_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

var (
	siw0 = netlinkrdma.Device{
		Index: 3, Name: "siw0", Ports: 1, CapFlags: 0x223000, NodeGUID: 0x0c7680fffebfe77b,
		NodeType: verbs.NodeRNIC, Protocol: "iw",
	}
	mlx5 = netlinkrdma.Device{
		Index: 7, Name: "mlx5_0", Ports: 2, CapFlags: 1 << 40, FWVersion: "16.35.4030",
		NodeGUID: 0x506b4b0300fbe1a2, SysImageGUID: 0x506b4b0300fbe1a2,
		NodeType: verbs.NodeCA, Protocol: "ib",
	}
	siwPort = netlinkrdma.Port{
		DeviceIndex: 3, DeviceName: "siw0", Index: 1, State: verbs.PortActive,
		PhysState: verbs.PhysLinkUp, NetdevIndex: 4, NetdevName: "dummy0",
	}
	ibPort = netlinkrdma.Port{
		DeviceIndex: 7, DeviceName: "mlx5_0", Index: 2, State: verbs.PortInit,
		PhysState: verbs.PhysPolling, InfiniBand: true, CapFlags: 1<<33 | 2,
		SubnetPrefix: 0xfe80000000000000, LID: 13, SMLID: 1, LMC: 2,
	}
)

func kernel() *nltest.Kernel {
	return &nltest.Kernel{
		Devices:   []netlinkrdma.Device{siw0, mlx5},
		Ports:     []netlinkrdma.Port{siwPort, ibPort},
		CharDevs:  map[uint32]netlinkrdma.CharDev{3: {Name: "uverbs0", ABI: 1, Major: 231, Minor: 192, DriverID: 18}},
		CM:        netlinkrdma.CharDev{Name: "rdma_cm", ABI: 4, Major: 10, Minor: 260},
		Resources: []netlinkrdma.Resource{{Kind: "pd", Count: 1}, {Kind: "cm_id", Count: 1 << 33}},
		Netdevs:   []string{"dummy0", "dummy1"},
		Types:     []string{"siw"},
	}
}

func TestClientReads(t *testing.T) {
	c := netlinkrdma.Client{Kernel: kernel()}
	for _, test := range []struct {
		name string
		call func() (any, error)
		want any
	}{
		{"devices", func() (any, error) { return c.Devices() }, []netlinkrdma.Device{siw0, mlx5}},
		{"listed", func() (any, error) { return c.IsListed(7) }, true},
		{"not listed", func() (any, error) { return c.IsListed(4) }, false},
		{"by name", func() (any, error) { return c.DeviceByName("mlx5_0") }, mlx5},
		{"iwarp ports", func() (any, error) { return c.Ports(3) }, []netlinkrdma.Port{siwPort}},
		{"ib ports", func() (any, error) { return c.Ports(7) }, []netlinkrdma.Port{ibPort}},
		{"uverbs", func() (any, error) { return c.UverbsCharDev(3) }, kernel().CharDevs[3]},
		{"rdma_cm", func() (any, error) { return c.CMCharDev() }, kernel().CM},
		{"resources", func() (any, error) { return c.Resources(3, nil) }, kernel().Resources},
	} {
		got, err := test.call()
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestLinks(t *testing.T) {
	c := netlinkrdma.Client{Kernel: kernel()}
	if err := c.AddLink("siw1", "siw", "dummy1"); err != nil {
		t.Fatal(err)
	}
	d, err := c.DeviceByName("siw1")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteLink(d.Index); err != nil {
		t.Fatal(err)
	}
	_, err = c.DeviceByName("siw1")
	if !errors.Is(err, netlinkrdma.ErrNotFound) || !strings.Contains(err.Error(), "there are siw0, mlx5_0") {
		t.Errorf("after delete: %v", err)
	}
}

func TestAddLinkRequest(t *testing.T) {
	k := kernel()
	c := netlinkrdma.Client{Kernel: k}
	if err := c.AddLink("siw1", "siw", "dummy1"); err != nil {
		t.Fatal(err)
	}
	want := []netlinkrdma.Request{{Op: abi.RDMA_NLDEV_CMD_NEWLINK, Attrs: []netlinkrdma.Attr{
		{Type: abi.RDMA_NLDEV_ATTR_DEV_NAME, Value: []byte("siw1\x00")},
		{Type: abi.RDMA_NLDEV_ATTR_LINK_TYPE, Value: []byte("siw\x00")},
		{Type: abi.RDMA_NLDEV_ATTR_NDEV_NAME, Value: []byte("dummy1\x00")},
	}}}
	if diff := cmp.Diff(want, k.Requests); diff != "" {
		t.Error(diff)
	}
}

func TestAddLinkRefusesNames(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, test := range []struct{ name, typ, netdev, want string }{
		{"", "siw", "lo", "the name is empty"},
		{"siw%d", "siw", "lo", "percent sign"},
		{long, "siw", "lo", "the name has 64 bytes, the kernel takes at most 63"},
		{"siw0", "", "lo", "the type is empty"},
		{"siw0", long, "lo", "the type has 64 bytes, the kernel takes at most 15"},
		{"siw0", "siw", "", "the netdev is empty"},
		{"siw0", "siw", "a\x00b", "a NUL"},
	} {
		k := kernel()
		err := (&netlinkrdma.Client{Kernel: k}).AddLink(test.name, test.typ, test.netdev)
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), test.want) || len(k.Requests) != 0 {
			t.Errorf("AddLink(%q, %q, %q) = %v after %d requests, want %q", test.name, test.typ, test.netdev, err, len(k.Requests), test.want)
		}
	}
}

// calls has every call of the client, by operation.
func calls(c *netlinkrdma.Client) map[string]struct {
	op   uint16
	call func() error
} {
	type entry = struct {
		op   uint16
		call func() error
	}
	return map[string]entry{
		"Devices":       {abi.RDMA_NLDEV_CMD_GET, func() error { _, err := c.Devices(); return err }},
		"IsListed":      {abi.RDMA_NLDEV_CMD_GET, func() error { _, err := c.IsListed(3); return err }},
		"DeviceByName":  {abi.RDMA_NLDEV_CMD_GET, func() error { _, err := c.DeviceByName("siw0"); return err }},
		"Ports":         {abi.RDMA_NLDEV_CMD_PORT_GET, func() error { _, err := c.Ports(3); return err }},
		"AddLink":       {abi.RDMA_NLDEV_CMD_NEWLINK, func() error { return c.AddLink("a", "siw", "dummy1") }},
		"DeleteLink":    {abi.RDMA_NLDEV_CMD_DELLINK, func() error { return c.DeleteLink(3) }},
		"UverbsCharDev": {abi.RDMA_NLDEV_CMD_GET_CHARDEV, func() error { _, err := c.UverbsCharDev(3); return err }},
		"CMCharDev":     {abi.RDMA_NLDEV_CMD_GET_CHARDEV, func() error { _, err := c.CMCharDev(); return err }},
		"Resources":     {abi.RDMA_NLDEV_CMD_RES_GET, func() error { _, err := c.Resources(3, nil); return err }},
	}
}

func TestEveryCallEveryErrno(t *testing.T) {
	sentinels := map[syscall.Errno]error{
		syscall.EPERM:           netlinkrdma.ErrPermission,
		syscall.EACCES:          netlinkrdma.ErrPermission,
		syscall.EPROTONOSUPPORT: verbs.ErrNotSupported,
		syscall.EAFNOSUPPORT:    verbs.ErrNotSupported,
		syscall.ECONNREFUSED:    verbs.ErrNotSupported,
		syscall.EOPNOTSUPP:      verbs.ErrNotSupported,
		syscall.ENOSYS:          verbs.ErrNotSupported,
	}
	k := kernel()
	for name, entry := range calls(&netlinkrdma.Client{Kernel: k}) {
		for errno := syscall.Errno(1); errno < 134; errno++ {
			k.Fail = map[uint16]error{entry.op: errno}
			err := entry.call()
			if !errors.Is(err, errno) || !errors.As(err, new(*verbs.Error)) {
				t.Errorf("%s with %d: %v", name, errno, err)
			}
			if s := sentinels[errno]; s != nil && !errors.Is(err, s) {
				t.Errorf("%s with %d is no %q: %v", name, errno, s, err)
			}
		}
	}
	if !errors.Is(verbs.ErrNotSupported, errors.ErrUnsupported) {
		t.Error("ErrNotSupported is no errors.ErrUnsupported")
	}
}

func TestDeviceGone(t *testing.T) {
	c := netlinkrdma.Client{Kernel: kernel()}
	for name, call := range map[string]func() error{
		"Ports":         func() error { _, err := c.Ports(77); return err },
		"UverbsCharDev": func() error { _, err := c.UverbsCharDev(77); return err },
		"Resources":     func() error { _, err := c.Resources(77, nil); return err },
	} {
		if err := call(); !errors.Is(err, netlinkrdma.ErrNotFound) || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A device that cannot be deleted still exists.
	if err := c.DeleteLink(77); !errors.Is(err, syscall.EINVAL) || errors.Is(err, netlinkrdma.ErrNotFound) || !strings.Contains(err.Error(), "only siw and rxe links") {
		t.Errorf("DeleteLink: %v", err)
	}
}

// replies answers every request with the same bytes.
type replies [][]byte

func (r replies) Execute(netlinkrdma.Request) ([][]byte, error) { return r, nil }

func TestNumberOfReplies(t *testing.T) {
	for _, r := range []replies{{}, {nil, nil}} {
		c := netlinkrdma.Client{Kernel: r}
		if _, err := c.CMCharDev(); !errors.Is(err, netlinkrdma.ErrMalformed) {
			t.Errorf("%d replies: %v", len(r), err)
		}
	}
	c := netlinkrdma.Client{Kernel: replies{}}
	if devices, err := c.Devices(); err != nil || len(devices) != 0 {
		t.Errorf("no device: %v, %v", devices, err)
	}
	if _, err := c.DeviceByName("siw0"); !errors.Is(err, netlinkrdma.ErrNotFound) {
		t.Errorf("no device by name: %v", err)
	}
}

// disturbed returns EINTR for the first n dumps.
type disturbed struct {
	*nltest.Kernel
	n, asked int
}

func (d *disturbed) Execute(req netlinkrdma.Request) ([][]byte, error) {
	if d.asked++; d.asked <= d.n {
		return nil, fmt.Errorf("dump: %w", syscall.EINTR)
	}
	return d.Kernel.Execute(req)
}

func TestDisturbedDumpIsRepeated(t *testing.T) {
	k := &disturbed{Kernel: kernel(), n: 3}
	if devices, err := (&netlinkrdma.Client{Kernel: k}).Devices(); err != nil || len(devices) != 2 || k.asked != 4 {
		t.Errorf("%d devices, %v, after %d dumps", len(devices), err, k.asked)
	}
	k = &disturbed{Kernel: kernel(), n: 1000}
	if _, err := (&netlinkrdma.Client{Kernel: k}).Devices(); !errors.Is(err, syscall.EINTR) || !strings.Contains(err.Error(), "try again") || k.asked != 10 {
		t.Errorf("%v after %d dumps", err, k.asked)
	}
	k = &disturbed{Kernel: kernel(), n: 1}
	if err := (&netlinkrdma.Client{Kernel: k}).AddLink("a", "siw", "dummy1"); !errors.Is(err, syscall.EINTR) || strings.Contains(err.Error(), "try again") || k.asked != 1 {
		t.Errorf("a link was added %d times: %v", k.asked, err)
	}
}

// TestAddLinkHints checks that each errno of AddLink comes with its causes.
func TestAddLinkHints(t *testing.T) {
	for _, c := range []struct {
		typ   string
		errno syscall.Errno
		want  string // empty: no hint
	}{
		{"siw", syscall.ENODEV, "no network device dummy1"},
		{"siw", syscall.EINVAL, "modprobe siw"},
		{"siw", syscall.ENFILE, "the name a is taken"},
		{"rxe", syscall.EEXIST, "can have only one"},
		{"rxe", syscall.ENOENT, "crc32"},
		{"siw", syscall.ENOENT, ""},
		{"rxe", syscall.EPERM, "VLAN"},
		{"siw", syscall.EPERM, ""},
	} {
		k := &nltest.Kernel{Fail: map[uint16]error{abi.RDMA_NLDEV_CMD_NEWLINK: c.errno}}
		err := (&netlinkrdma.Client{Kernel: k}).AddLink("a", c.typ, "dummy1")
		if !errors.Is(err, c.errno) || !strings.Contains(err.Error(), c.want) || c.want == "" && strings.HasSuffix(err.Error(), ")") {
			t.Errorf("%s, %v: %v", c.typ, c.errno, err)
		}
	}
}
