package uverbs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// listed is a kernel with one device, whose node has the number 231:195.
type listed struct {
	nltest.Kernel
	opened uint64 // the number that the node was to have
}

const (
	listedIndex = kernel.FirstIndex + 77
	listedGUID  = verbs.GUID(0x0c7680fffebfe77b)
)

func (l *listed) Netlink() netlinkrdma.Kernel { return &l.Kernel }
func (l *listed) OpenCM() (kernel.CM, error)  { return nil, fs.ErrNotExist }
func (l *listed) Owns(netip.Addr) bool        { return false }
func (l *listed) node() string                { return fmt.Sprintf("listed-%d", os.Getpid()) }

func (l *listed) OpenDevice(node string, number uint64) (ioctl.File, error) {
	if node != "/dev/infiniband/"+l.node() {
		return nil, fs.ErrNotExist
	}
	l.opened = number
	return fakeverbs.New(uint32(verbs.DriverSIW)), nil
}

func register(t *testing.T) *listed {
	l := new(listed)
	l.Devices = []netlinkrdma.Device{{Index: listedIndex, Name: "siw77", NodeGUID: listedGUID, Ports: 1}}
	l.CharDevs = map[uint32]netlinkrdma.CharDev{listedIndex: {Name: l.node(), ABI: 1, Major: 231, Minor: 195, DriverID: uint32(verbs.DriverSIW)}}
	t.Cleanup(kernel.Register(l))
	return l
}

// TestOpenWrongName checks that the error has one line, with the names that there are, also if the running kernel has no RDMA.
func TestOpenWrongName(t *testing.T) {
	register(t)
	_, err := uverbs.Open("siw78")
	_, _, errNetdev := uverbs.OpenNetdev("siw78")
	for _, err := range []error{err, errNetdev} {
		if !errors.Is(err, verbs.ErrNoDevice) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "NETLINK") ||
			!strings.Contains(err.Error(), "there are ") || !strings.Contains(err.Error(), "siw77 (siw, index ") {
			t.Error(err)
		}
	}
	joined := &verbs.Error{Op: "open", Err: errors.Join(verbs.ErrNoDevice, syscall.EIO)}
	if want := "open: no such RDMA device; input/output error"; joined.Error() != want {
		t.Errorf("%q, want %q", joined, want)
	}
}

// A device is opened by the number of its node, which Linux packs as it does for stat(2).
func TestNodeNumber(t *testing.T) {
	l := register(t)
	dev := must[*uverbs.Device](t)(uverbs.Open("siw77"))
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	if l.opened != 231<<8|195 {
		t.Errorf("number %#x", l.opened)
	}
}

// An index identifies a device only together with its GUID.
func TestOpenIndex(t *testing.T) {
	register(t)
	dev := must[*uverbs.Device](t)(uverbs.OpenIndex(listedIndex, listedGUID))
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	for index, guid := range map[uint32]verbs.GUID{listedIndex: listedGUID + 1, listedIndex + 1: listedGUID} {
		if dev, err := uverbs.OpenIndex(index, guid); !errors.Is(err, verbs.ErrNoDevice) {
			t.Errorf("index %d with GUID %v: %v, %v", index, guid, dev, err)
		}
	}
}

// A network interface identifies a device and a port.
func TestOpenNetdev(t *testing.T) {
	l := register(t)
	l.Ports = []netlinkrdma.Port{{DeviceIndex: listedIndex, DeviceName: "siw77", Index: 2, NetdevIndex: 9, NetdevName: "listed9"}}
	dev, port, err := uverbs.OpenNetdev("listed9")
	if err != nil || port != 2 || dev.Info().Name != "siw77" {
		t.Fatalf("%+v, port %d, %v", dev, port, err)
	}
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := uverbs.OpenNetdev("eth0"); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), "listed9 (siw77)") {
		t.Error(err)
	}
	l.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_PORT_GET: syscall.EACCES}
	if _, _, err := uverbs.OpenNetdev("listed9"); !errors.Is(err, syscall.EACCES) {
		t.Error(err)
	}
}

// A node is found by its path or, under another path, by its number.
func TestOpenNode(t *testing.T) {
	l := register(t)
	dev := must[*uverbs.Device](t)(uverbs.OpenNode("/dev/infiniband/" + l.node()))
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	if _, err := uverbs.OpenNode(os.DevNull); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), "siw77") {
		t.Error(err)
	}
	l.CharDevs = map[uint32]netlinkrdma.CharDev{listedIndex: {Name: l.node(), ABI: 1, DriverID: uint32(verbs.DriverSIW)}}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := uverbs.OpenNode(file); !errors.Is(err, verbs.ErrNoDevice) { // neither has a number
		t.Error(err)
	}
	if _, err := uverbs.OpenNode(filepath.Join(t.TempDir(), "uverbs0")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
