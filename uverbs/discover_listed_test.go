package uverbs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/uverbs"
)

// listed is a kernel with one device, whose node has the number 231:195.
type listed struct {
	nltest.Kernel
	opened uint64 // the number that the node was to have
}

const (
	listedIndex = kernel.FirstIndex + 77
	listedGUID  = uverbs.GUID(0x0c7680fffebfe77b)
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
	return fakeverbs.New(uint32(uverbs.DriverSIW)), nil
}

func register(t *testing.T) *listed {
	l := new(listed)
	l.Devices = []netlinkrdma.Device{{Index: listedIndex, Name: "siw77", NodeGUID: listedGUID, Ports: 1}}
	l.CharDevs = map[uint32]netlinkrdma.CharDev{listedIndex: {Name: l.node(), ABI: 1, Major: 231, Minor: 195, DriverID: uint32(uverbs.DriverSIW)}}
	t.Cleanup(kernel.Register(l))
	return l
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

// An index stands for a device only as long as the GUID is the same.
func TestOpenIndex(t *testing.T) {
	register(t)
	dev := must[*uverbs.Device](t)(uverbs.OpenIndex(listedIndex, listedGUID))
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	for index, guid := range map[uint32]uverbs.GUID{listedIndex: listedGUID + 1, listedIndex + 1: listedGUID} {
		if dev, err := uverbs.OpenIndex(index, guid); !errors.Is(err, uverbs.ErrNoDevice) {
			t.Errorf("index %d with GUID %v: %v, %v", index, guid, dev, err)
		}
	}
}
