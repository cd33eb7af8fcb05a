package rdmacm

import (
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// host is a kernel of this process that every address belongs to, with one device at
// most.
type host struct {
	channel func() kernel.CM
	device  func() ioctl.File // nil: there is none
	index   uint32            // of the device
	node    string            // of the device
	removed atomic.Bool       // the device is off the list
	hidden  atomic.Bool       // and not found either

	mu      sync.Mutex // nltest's kernel takes one request at a time
	netlink nltest.Kernel
}

const hostGUID = verbs.GUID(0x0c7680fffebfe77b)

var hosts atomic.Uint32

// register lets Dial and Listen find h, with a device if info has a name.
func (h *host) register(t *testing.T, info uverbs.DeviceInfo) {
	t.Helper()
	if info.Name != "" {
		h.index = kernel.FirstIndex + hosts.Add(1)
		h.node = fmt.Sprint("rdmacm-test-", h.index)
		h.netlink.Devices = []netlinkrdma.Device{{Index: h.index, Name: info.Name, NodeGUID: hostGUID, Ports: 1}}
		h.netlink.CharDevs = map[uint32]netlinkrdma.CharDev{h.index: {Name: h.node, ABI: uint64(info.ABI), DriverID: uint32(info.Driver)}}
	}
	t.Cleanup(kernel.Register(h))
}

func (h *host) Netlink() netlinkrdma.Kernel { return h }
func (h *host) OpenCM() (kernel.CM, error)  { return h.channel(), nil }
func (h *host) Owns(netip.Addr) bool        { return true }

func (h *host) Execute(req netlinkrdma.Request) ([][]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case req.Op != abi.RDMA_NLDEV_CMD_GET:
	case req.Dump && (h.removed.Load() || h.hidden.Load()):
		return nil, nil
	case h.hidden.Load():
		return nil, syscall.ENODEV
	}
	return h.netlink.Execute(req)
}

func (h *host) OpenDevice(node string, _ uint64) (ioctl.File, error) {
	if h.device == nil || node != "/dev/infiniband/"+h.node {
		return nil, fs.ErrNotExist
	}
	return h.device(), nil
}

// TestRegisteredKernel: a device of a kernel in this process is listed beside those of
// the running one, dialled by its address, and gone with its kernel.
func TestRegisteredKernel(t *testing.T) {
	var index uint32
	listed := func() bool {
		infos, _ := uverbs.Devices() // on a machine without RDMA that may be an error
		return slices.ContainsFunc(infos, func(info uverbs.DeviceInfo) bool {
			return info.Index == index && info.Name == "siw7" && info.NodeGUID == hostGUID && info.Driver == verbs.DriverSIW
		})
	}
	t.Run("registered", func(t *testing.T) {
		w := newWorld(t, uverbs.DeviceInfo{Name: "siw7", Driver: verbs.DriverSIW, ABI: 1})
		if index = w.host.index; !listed() {
			t.Error("not listed")
		}
		c := w.dialIn()
		if got := c.Device().Info(); got.Index != index {
			t.Errorf("%+v", got)
		}
		closeConn(t, c)
		w.empty()
	})
	if listed() {
		t.Error("listed after its kernel went")
	}
}
