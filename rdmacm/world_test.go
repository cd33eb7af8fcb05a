package rdmacm

import (
	"context"
	"net/netip"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	_ "github.com/goverbs/goverbs/provider/rxe"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// dialAddr dials with a Config, which may be nil.
func dialAddr(ctx context.Context, addr netip.AddrPort, cfg *Config) (*Conn, error) {
	var d Dialer
	if cfg != nil {
		d.Config = *cfg
	}
	return d.Dial(ctx, addr.String())
}

// listenOn listens with a Config, which may be nil.
func listenOn(address string, cfg *Config) (*Listener, error) {
	var lc ListenConfig
	if cfg != nil {
		lc.Config = *cfg
	}
	return lc.Listen(context.Background(), address)
}

// world is a machine with one device. There all connections, lookups and joins
// succeed, unless a command is set to fail.
type world struct {
	t     *testing.T
	info  uverbs.DeviceInfo
	host  *host
	verbs *fakeverbs.Kernel
	cms   []*fakeKernel // one a channel
	fails map[uint32]syscall.Errno

	event  func(*abi.RdmaUcmEventResp)                  // changes what is reported
	before func(k *fakeKernel, cmd uint32, body []byte) // hears of each command
	done   func(cmd uint32) bool                        // hears of each success; true: nothing is reported

	answers  func(*abi.RdmaUcmEventResp)    // changes a peer's answer to a request to connect
	accepted func(k *fakeKernel, id uint32) // hears of each answer to a peer
}

var (
	aSIW = uverbs.DeviceInfo{Name: "siw0", Driver: verbs.DriverSIW, ABI: 1}
	aRXE = uverbs.DeviceInfo{Name: "rxe0", Driver: verbs.DriverRXE, ABI: 2}
)

// newDatagramWorld is one with datagrams: its device is soft RoCE.
func newDatagramWorld(t *testing.T) *world { return newWorld(t, aRXE) }

func newWorld(t *testing.T, info uverbs.DeviceInfo) *world {
	w := &world{t: t, info: info, fails: make(map[uint32]syscall.Errno)}
	w.host = &host{
		channel: func() kernel.CM { return w.channel() },
		device: func() ioctl.File {
			w.verbs = fakeverbs.New(uint32(info.Driver))
			w.verbs.InBubble = true // for the tests that run in one
			return w.verbs
		},
	}
	w.host.register(t, info)
	return w
}

func (w *world) channel() *fakeKernel {
	k := newFake()
	k.device, k.iwarp = w.host.index, w.info.Driver == verbs.DriverSIW
	for cmd, errno := range w.fails {
		k.fail(cmd, errno)
	}
	k.onCall = func(cmd uint32, body []byte) {
		if w.before != nil {
			w.before(k, cmd, body)
		}
	}
	k.onDone = func(cmd uint32, body []byte) { w.report(k, cmd, body) }
	w.cms = append(w.cms, k)
	return k
}

// report sends the event that a command is followed by.
func (w *world) report(k *fakeKernel, cmd uint32, body []byte) {
	address := func(ev *abi.RdmaUcmEventResp) {
		p := abi.RdmaUcmUdParam{QpNum: 77, Qkey: 0x01234567, PrivateDataLen: 2}
		copy(p.PrivateData[:], "me")
		p.AhAttr.Grh.Dgid, p.AhAttr.Grh.SgidIndex, p.AhAttr.IsGlobal, p.AhAttr.PortNum = fakeverbs.IPv4GID, 1, 1, 1
		if cmd == abi.RDMA_USER_CM_CMD_JOIN_MCAST {
			p.AhAttr.Grh.Dgid = groupGID
		}
		copy(ev.Param[:], bytesOf(&p))
		if w.event != nil {
			w.event(ev)
		}
	}
	if w.done != nil && w.done(cmd) {
		return
	}
	switch cmd {
	case abi.RDMA_USER_CM_CMD_RESOLVE_ADDR:
		k.report(view[abi.RdmaUcmResolveAddr](body).Id, EventAddrResolved, nil)
	case abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		k.report(view[abi.RdmaUcmResolveRoute](body).Id, EventRouteResolved, nil)
	case abi.RDMA_USER_CM_CMD_CONNECT:
		w.answer(k, view[abi.RdmaUcmConnect](body).Id, address)
	case abi.RDMA_USER_CM_CMD_ACCEPT:
		a := view[abi.RdmaUcmAccept](body)
		if a.ConnParam.Valid != 0 && w.accepted != nil {
			w.accepted(k, a.Id)
		}
	case abi.RDMA_USER_CM_CMD_JOIN_MCAST:
		k.mu.Lock()
		member := k.handles
		k.mu.Unlock()
		k.report(member, EventMulticastJoin, address)
	}
}

// answer reports the peer's answer to a connect request or a lookup.
func (w *world) answer(k *fakeKernel, id uint32, address func(*abi.RdmaUcmEventResp)) {
	switch {
	case k.datagram:
		k.report(id, EventEstablished, address)
	case k.iwarp:
		k.report(id, EventEstablished, w.answers)
	default:
		k.report(id, EventConnectResponse, w.answers)
	}
}

// fail has a command fail on all channels from now on.
func (w *world) fail(cmd uint32, errno syscall.Errno) {
	w.fails[cmd] = errno
	for _, k := range w.cms {
		k.fail(cmd, errno)
	}
}

// empty fails the test if something is left.
func (w *world) empty() {
	w.t.Helper()
	for i, k := range w.cms {
		select {
		case <-k.closed:
		default:
			w.t.Errorf("channel %d was left open", i)
		}
	}
	if w.verbs != nil {
		if leaks := w.verbs.Leaks(); len(leaks) > 0 {
			w.t.Error("left:", leaks)
		}
	}
	w.cms, w.verbs = nil, nil
}

var (
	udConfig = Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}, PrivateData: []byte("hello")}
	local4   = netip.MustParseAddr("10.1.2.3")
)

func (w *world) openUD() *Conn {
	w.t.Helper()
	c, err := OpenUD(local4, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func closeConn(t *testing.T, c *Conn) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// openOn opens a device on a kernel that stands in for the real one.
func openOn(info uverbs.DeviceInfo, file ioctl.File) (*uverbs.Device, error) {
	info.Node = kernel.Node(file)
	return info.Open()
}
