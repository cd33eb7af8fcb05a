package fakefabric

import (
	"io/fs"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/uverbs"
)

// Fabric is the machine. Each opening of its device has objects of its own, as with a
// kernel.
type Fabric struct {
	// OnOpen sees the kernel's side of each opening of the device before it is used. Set
	// it before that.
	OnOpen func(*fakeverbs.Kernel)

	t       *testing.T
	iwarp   bool
	info    uverbs.DeviceInfo
	index   uint32
	manager manager

	opening sync.Mutex // guards what follows
	netlink nltest.Kernel

	mu      sync.Mutex // guards what follows, and the carriage of data
	devices []*device  // in the order of opening
	peers   map[uint32]uint32
	paused  chan struct{} // nil: not; closed when there was something to carry
	waiting []parked
}

// Host is the machine's address.
const Host = "198.51.100.1"

// Drivers are the devices that a fabric may have, one of each transport. Their providers
// must be linked in.
var Drivers = []uverbs.DeviceInfo{
	{Name: "rxe0", Driver: uverbs.DriverRXE, ABI: 2}, {Name: "siw0", Driver: uverbs.DriverSIW, ABI: 1},
}

const (
	node = "fakefabric"
	guid = netlinkrdma.GUID(0x0c7680fffebfe77b)
)

// New makes a fabric with one of Drivers. It stays until the test ends.
func New(t *testing.T, info uverbs.DeviceInfo) *Fabric {
	f := &Fabric{t: t, iwarp: info.Driver == uverbs.DriverSIW, info: info, index: kernel.FirstIndex + 1, peers: make(map[uint32]uint32)}
	f.manager = manager{f: f, port: 40000, ids: make(map[uint32]*cmID), refused: make(map[uint32]error), held: make(map[uint32]chan struct{})}
	f.netlink.Devices = []netlinkrdma.Device{{Index: f.index, Name: info.Name, NodeGUID: guid, Ports: 1}}
	f.netlink.CharDevs = map[uint32]netlinkrdma.CharDev{f.index: {Name: node, ABI: uint64(info.ABI), DriverID: uint32(info.Driver)}}
	t.Cleanup(kernel.Register(f))
	t.Cleanup(f.nothingLeft)
	return f
}

// nothingLeft waits for what is freed in the background.
func (f *Fabric) nothingLeft() {
	var left []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if left = f.Left(); len(left) == 0 {
			return
		}
	}
	f.t.Error("left:", left)
}

// Left lists what exists: objects of the device and of the connection manager, openings of
// both, and memory that was lent.
func (f *Fabric) Left() (left []string) {
	f.mu.Lock()
	devices := f.devices
	f.mu.Unlock()
	for _, d := range devices {
		left = append(left, d.Leaks()...)
	}
	return append(left, f.manager.left()...)
}

// Alive lists the device's objects in all its openings.
func (f *Fabric) Alive() (alive []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.devices {
		alive = append(alive, d.Kernel.Alive()...)
	}
	return alive
}

// Netlink implements kernel.Kernel, as the other exported methods without a comment do.
func (f *Fabric) Netlink() netlinkrdma.Kernel { return f }

func (f *Fabric) Owns(a netip.Addr) bool { return a == netip.MustParseAddr(Host) }

func (f *Fabric) OpenCM() (kernel.CM, error) { return f.manager.open(), nil }

func (f *Fabric) Execute(req netlinkrdma.Request) ([][]byte, error) {
	f.opening.Lock()
	defer f.opening.Unlock()
	return f.netlink.Execute(req)
}

// qpNumbers keeps the QPNs of several openings apart.
const qpNumbers = 1 << 16

func (f *Fabric) OpenDevice(path string, _ uint64) (ioctl.File, error) {
	if path != "/dev/infiniband/"+node {
		return nil, fs.ErrNotExist
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	k := fakeverbs.New(uint32(f.info.Driver))
	k.FirstQPN = uint32(len(f.devices)+1) * qpNumbers
	if f.OnOpen != nil {
		f.OnOpen(k)
	}
	d := newDevice(f, k)
	f.devices = append(f.devices, d)
	return d, nil
}
