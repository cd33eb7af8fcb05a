package rsocket

import (
	"io/fs"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	_ "github.com/goverbs/goverbs/provider/rxe"
	_ "github.com/goverbs/goverbs/provider/siw"
	"github.com/goverbs/goverbs/uverbs"
)

// fabric is a machine with one device, which all connections of a test run over.
type fabric struct {
	t     *testing.T
	iwarp bool
	info  uverbs.DeviceInfo
	index uint32
	cm    manager

	mu      sync.Mutex // guards what follows
	netlink nltest.Kernel
	device  *device // the one that is open
}

const fabricHost = "198.51.100.1"

var drivers = []uverbs.DeviceInfo{
	{Name: "rxe0", Driver: uverbs.DriverRXE, ABI: 2}, {Name: "siw0", Driver: uverbs.DriverSIW, ABI: 1},
}

func newFabric(t *testing.T, info uverbs.DeviceInfo) *fabric {
	f := &fabric{t: t, iwarp: info.Driver == uverbs.DriverSIW, info: info, index: kernel.FirstIndex + 1}
	f.cm = manager{f: f, port: 40000, ids: make(map[uint32]*cmID)}
	f.netlink.Devices = []netlinkrdma.Device{{Index: f.index, Name: info.Name, NodeGUID: fabricGUID, Ports: 1}}
	f.netlink.CharDevs = map[uint32]netlinkrdma.CharDev{f.index: {Name: "rsocket-test", ABI: uint64(info.ABI), DriverID: uint32(info.Driver)}}
	t.Cleanup(kernel.Register(f))
	t.Cleanup(func() {
		if f.device == nil {
			return // nothing was dialled
		}
		if leaks := f.device.Leaks(); len(leaks) > 0 {
			t.Error("left:", leaks)
		}
	})
	return f
}

func (f *fabric) Netlink() netlinkrdma.Kernel { return f }
func (f *fabric) Owns(a netip.Addr) bool      { return a == netip.MustParseAddr(fabricHost) }

func (f *fabric) OpenCM() (kernel.CM, error) {
	return &cmChannel{m: &f.cm, some: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

func (f *fabric) Execute(req netlinkrdma.Request) ([][]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.netlink.Execute(req)
}

func (f *fabric) OpenDevice(node string, _ uint64) (ioctl.File, error) {
	if node != "/dev/infiniband/rsocket-test" {
		return nil, fs.ErrNotExist
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.device = newDevice(f, uint32(f.info.Driver))
	return f.device, nil
}

// join connects two queue pairs.
func (f *fabric) join(a, b uint32) {
	d := f.device
	d.mu.Lock()
	defer d.mu.Unlock()
	d.peers[a], d.peers[b] = b, a
	if f.iwarp {
		f.each(a, b, (*fakeverbs.QP).Connect)
	}
}

// part ends that. On iWARP the kernel flushes both.
func (f *fabric) part(a, b uint32) {
	d := f.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.peers[a] == b {
		delete(d.peers, a)
		delete(d.peers, b)
	}
	if f.iwarp {
		f.each(a, b, (*fakeverbs.QP).Break)
	}
}

func (f *fabric) each(a, b uint32, do func(*fakeverbs.QP)) {
	for _, qp := range f.device.QueuePairs() {
		if qp.Num == a || qp.Num == b {
			do(qp)
		}
	}
}

// pipe makes both ends of a connection.
func (f *fabric) pipe(z Sizes) (dialled, accepted net.Conn, stop func(), err error) {
	lc := ListenConfig{Sizes: z, KeepAlive: -1}
	l, err := lc.Listen(f.t.Context(), "tcp", fabricHost+":0")
	if err != nil {
		return nil, nil, nil, err
	}
	defer l.Close()
	failed := make(chan error, 1)
	go func() {
		var err error
		accepted, err = l.Accept()
		failed <- err
	}()
	d := Dialer{Sizes: z, KeepAlive: -1}
	if dialled, err = d.DialContext(f.t.Context(), "tcp", l.Addr().String()); err != nil {
		return nil, nil, nil, err
	}
	err = <-failed
	return dialled, accepted, func() { dialled.Close(); accepted.Close() }, err
}
