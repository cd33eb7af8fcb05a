package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// A dial ends with an error, and leaves nothing behind, at every step.
func TestDialFails(t *testing.T) {
	const dst = "10.0.0.1:7471"
	tests := []struct {
		name string
		cmd  uint32    // refused, or
		on   uint32    // answered
		typ  EventType // with this event
		want string
	}{
		{name: "create", cmd: abi.RDMA_USER_CM_CMD_CREATE_ID, want: "dial 10.0.0.1:7471: create ID: no such device"},
		{name: "resolve", cmd: abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, want: "dial 10.0.0.1:7471: resolve address: no such device: no RDMA device on the interface that routes to 10.0.0.1; rdmalink show lists the devices, ip route get the interface; on EFA, which has no connection manager, use package oob"},
		{name: "resolve event", on: abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, typ: EventAddrError, want: "dial 10.0.0.1:7471: resolve address: no such device: no RDMA device"},
		{name: "route", cmd: abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE, want: "dial 10.0.0.1:7471: resolve route: no such device"},
		{name: "hostile event", on: abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, typ: EventType(27), want: "no such device"},
	}
	for _, test := range tests {
		k := newFake()
		useFake(t, k)
		if test.cmd != abi.RDMA_USER_CM_CMD_RESOLVE_ADDR && test.on == 0 {
			k.onCall = func(cmd uint32, _ []byte) {
				if cmd == abi.RDMA_USER_CM_CMD_RESOLVE_ADDR {
					k.report(1, EventAddrResolved, nil)
				}
			}
		}
		if test.on != 0 {
			k.onCall = func(cmd uint32, _ []byte) {
				if cmd == test.on {
					k.report(1, test.typ, func(ev *abi.RdmaUcmEventResp) { ev.Status = uint32(1<<32 - int64(syscall.ENODEV)) })
				}
			}
		} else {
			k.fail(test.cmd, syscall.ENODEV)
		}
		_, err := Dial(t.Context(), dst)
		if !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
		select {
		case <-k.closed:
		default:
			t.Errorf("%s: the channel was left open", test.name)
		}
	}
}

// A step that times out is tried three times.
func TestDialRetries(t *testing.T) {
	k := newFake()
	useFake(t, k)
	k.onCall = func(cmd uint32, _ []byte) {
		if cmd == abi.RDMA_USER_CM_CMD_RESOLVE_ADDR {
			k.report(1, EventAddrError, func(ev *abi.RdmaUcmEventResp) { ev.Status = uint32(1<<32 - int64(syscall.ETIMEDOUT)) })
		}
	}
	_, err := (&Dialer{ResolveTimeout: 7 * time.Millisecond}).Dial(t.Context(), addr4.String())
	var timeout interface{ Timeout() bool }
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Error(err)
	}
	if n := k.count(abi.RDMA_USER_CM_CMD_RESOLVE_ADDR); n != resolveTries {
		t.Error(n, "tries")
	}
	if b := body[abi.RdmaUcmResolveAddr](k, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR); b.TimeoutMs != 7 {
		t.Error("timeout", b.TimeoutMs)
	}
}

// A dial that its context ends says where it was, and is the net.Error that
// callers of package net look for.
func TestDialContext(t *testing.T) {
	tests := []struct {
		name, at string
		on       uint32 // the context ends once this has been done
		end      error
	}{
		{"cancelled", "resolve address", abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, context.Canceled},
		{"deadline", "resolve address", abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, context.DeadlineExceeded},
		{"deadline, on the way", "resolve route", abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE, context.DeadlineExceeded},
		{"deadline, no answer", "connect", abi.RDMA_USER_CM_CMD_CONNECT, context.DeadlineExceeded},
	}
	for _, test := range tests {
		w := newDatagramWorld(t)
		ctx, end := newEndable(t.Context())
		w.done = func(cmd uint32) bool {
			if cmd == test.on {
				end(test.end)
			}
			return cmd == test.on
		}
		_, err := dialAddr(ctx, addr4, &udConfig)
		want := "dial 10.1.2.3:7471: " + test.at + ": " + test.end.Error()
		if !errors.Is(err, test.end) || err.Error() != want {
			t.Errorf("%s: %v, want %s", test.name, err, want)
		}
		var netErr net.Error
		timeout := test.end == context.DeadlineExceeded
		if !errors.As(err, &netErr) || netErr.Timeout() != timeout || netErr.(*verbs.Error).Temporary() != timeout {
			t.Errorf("%s: %#v", test.name, err)
		}
		<-w.cms[0].closed // in the background
		if _, err := dialAddr(ctx, addr4, nil); !errors.Is(err, test.end) || !strings.Contains(err.Error(), addr4.String()) {
			t.Error(err)
		}
	}
}

// endable is a context that ends when a test says, and as it says.
type endable struct {
	context.Context
	done chan struct{}
	err  atomic.Value
}

func newEndable(parent context.Context) (context.Context, func(error)) {
	c := &endable{Context: parent, done: make(chan struct{})}
	return c, func(err error) { c.err.Store(err); close(c.done) }
}

func (c *endable) Done() <-chan struct{} { return c.done }

func (c *endable) Err() error {
	err, _ := c.err.Load().(error)
	return err
}

func TestOpErrorIsNetError(t *testing.T) {
	for _, test := range []struct {
		err                error
		timeout, temporary bool
	}{
		{syscall.ETIMEDOUT, true, true},
		{context.DeadlineExceeded, true, true},
		{context.Canceled, false, false},
		{syscall.EMFILE, false, true},
		{syscall.ENODEV, false, false},
		{&RejectedError{Reason: RejectConsumer}, false, false},
	} {
		var err net.Error = &verbs.Error{Op: "dial", Err: test.err}
		if err.Timeout() != test.timeout || err.(*verbs.Error).Temporary() != test.temporary {
			t.Errorf("%v: timeout %v, temporary %v", err, err.Timeout(), err.(*verbs.Error).Temporary())
		}
	}
}

// A CONNECT that hangs in the kernel is left alone when the context ends, and
// its ID destroyed.
func TestConnectCancelled(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	hang := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	k.onCall = func(cmd uint32, _ []byte) {
		switch cmd {
		case abi.RDMA_USER_CM_CMD_CONNECT:
			cancel()
			<-hang
		case abi.RDMA_USER_CM_CMD_DESTROY_ID:
			close(hang)
		}
	}
	if err := id.Connect(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	eventually(t, "destroying the ID", func() bool { found, _ := id.ch.lookup(id.uid); return found == nil })
}

func TestPickSource(t *testing.T) {
	addrs := func(list ...string) (out []net.Addr) {
		for _, s := range list {
			ip, n, err := net.ParseCIDR(s)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, &net.IPNet{IP: ip, Mask: n.Mask})
		}
		return out
	}
	lo := addrs("127.0.0.1/8", "10.9.9.9/32", "::1/128", "fe80::1/64", "fd09::9/128")
	for dst, want := range map[string]string{"127.0.0.1": "10.9.9.9", "127.3.2.1": "10.9.9.9", "::1": "fd09::9"} {
		if got := pickSource(netip.MustParseAddr(dst), lo); got.String() != want {
			t.Errorf("%s from %v, want %s", dst, got, want)
		}
	}
	if got := pickSource(netip.MustParseAddr("127.0.0.1"), addrs("127.0.0.1/8", "fd09::9/128")); got.IsValid() {
		t.Error(got)
	}
}

// A source port of the kernel's choice that TCP can't use yet is given back for
// another. The caller's preparation is not repeated.
func TestDialTriesAnotherPort(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EADDRNOTAVAIL, syscall.EADDRINUSE} {
		w := newWorld(t, aSIW)
		var asked []uint32
		prepared := 0
		cfg := &Config{Prepare: func(c *Conn) error {
			prepared++
			_, err := c.QP().PostRecv([]verbs.RecvWR{{WRID: 7}})
			return err
		}}
		w.before = func(k *fakeKernel, cmd uint32, body []byte) {
			if cmd != abi.RDMA_USER_CM_CMD_CONNECT {
				return
			}
			asked = append(asked, view[abi.RdmaUcmConnect](body).Id)
			k.fail(cmd, errno)
			if len(asked) == 3 {
				k.fail(cmd, 0)
			}
		}
		c, err := dialAddr(t.Context(), addr4, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(asked, []uint32{1, 2, 3}) || prepared != 1 {
			t.Errorf("connected IDs %v, prepared %d times", asked, prepared)
		}
		if n := w.cms[0].count(abi.RDMA_USER_CM_CMD_DESTROY_ID); n != 2 {
			t.Error(n, "IDs destroyed")
		}
		if e, ok := fakesiw.QPOf(w.verbs.QueuePairs()[0]).TakeRecv(); !ok || e.Id != 7 {
			t.Error("the receive is gone")
		}
		if c.id.qp == nil {
			t.Error("nobody would move the queue pair")
		}
		closeConn(t, c)
		w.empty()
	}
}

// Tries have an end, and a port of the caller's is not replaced.
func TestDialPortTaken(t *testing.T) {
	for source, tries := range map[netip.AddrPort]int{
		{}:                                       connectTries,
		netip.MustParseAddrPort("10.1.2.3:0"):    connectTries,
		netip.MustParseAddrPort("10.1.2.3:4711"): 1,
	} {
		w := newWorld(t, aSIW)
		w.fail(abi.RDMA_USER_CM_CMD_CONNECT, syscall.EADDRNOTAVAIL)
		_, err := (&Dialer{LocalAddr: source}).Dial(t.Context(), addr4.String())
		if !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Error(err)
		}
		if n := w.cms[0].count(abi.RDMA_USER_CM_CMD_CONNECT); n != tries {
			t.Errorf("from %v: %d tries, want %d", source, n, tries)
		}
		w.empty()
	}
}

// A failure on the way to another port ends the dial and leaves nothing.
func TestDialAnotherPortFails(t *testing.T) {
	for _, cmd := range []uint32{abi.RDMA_USER_CM_CMD_DESTROY_ID, abi.RDMA_USER_CM_CMD_CREATE_ID,
		abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE,
		abi.RDMA_USER_CM_CMD_QUERY, abi.RDMA_USER_CM_CMD_INIT_QP_ATTR} {
		w := newWorld(t, aSIW)
		w.before = func(k *fakeKernel, asked uint32, _ []byte) {
			if asked == abi.RDMA_USER_CM_CMD_CONNECT {
				k.fail(asked, syscall.EADDRNOTAVAIL)
				k.failOnce(cmd, syscall.EIO)
			}
		}
		if _, err := dialAddr(t.Context(), addr4, nil); !errors.Is(err, syscall.EIO) {
			t.Errorf("command %d: %v", cmd, err)
		}
		w.empty()
	}
}

// The errno of an answer that failed says nothing to a user.
func TestDialExplained(t *testing.T) {
	for _, test := range []struct {
		info  uverbs.DeviceInfo
		event EventType
		errno syscall.Errno
		hint  string
	}{
		{aSIW, EventConnectError, syscall.EINVAL, earlyPeer},
		{aSIW, EventConnectError, syscall.ETIMEDOUT, noAnswer},
		{aRXE, EventUnreachable, syscall.ETIMEDOUT, noAnswer},
	} {
		w := newWorld(t, test.info)
		w.answers = func(ev *abi.RdmaUcmEventResp) {
			ev.Event, ev.Status = uint32(test.event), uint32(1<<32-int64(test.errno))
		}
		_, err := dialAddr(t.Context(), addr4, nil)
		if want := "dial 10.1.2.3:7471: connect: " + test.errno.Error() + ": " + test.hint; !errors.Is(err, test.errno) || err.Error() != want {
			t.Error(err)
		}
		w.empty()
	}
}

// Options of the caller's are set before the address is resolved.
func TestDialOptions(t *testing.T) {
	k := newFake()
	useFake(t, k)
	k.fail(abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, 1)
	var values [][]byte
	k.onDone = func(cmd uint32, b []byte) {
		if cmd == abi.RDMA_USER_CM_CMD_SET_OPTION {
			values = append(values, append([]byte{byte(view[abi.RdmaUcmSetOption](b).Optname)}, k.option...))
		}
	}
	if _, err := (&Dialer{Config: Config{TransportOptions: TransportOptions{TOS: 0x20, AckTimeout: time.Second}}}).Dial(t.Context(), addr4.String()); err == nil {
		t.Error("resolved")
	}
	if !slices.EqualFunc(values, [][]byte{{abi.RDMA_OPTION_ID_TOS, 0x20}, {abi.RDMA_OPTION_ID_ACK_TIMEOUT, 18}}, slices.Equal) {
		t.Errorf("% x", values)
	}
	k.fail(abi.RDMA_USER_CM_CMD_SET_OPTION, 22)
	for _, o := range []TransportOptions{{TOS: 1}, {AckTimeout: 1}} {
		if _, err := (&Dialer{Config: Config{TransportOptions: o}}).Dial(t.Context(), addr4.String()); err == nil || k.calls[len(k.calls)-2] != abi.RDMA_USER_CM_CMD_SET_OPTION {
			t.Errorf("went on after a refusal: %v", err)
		}
	}
}

// A name, or a service, that can't be looked up is an error, and one that can is addresses.
func TestLookup(t *testing.T) {
	broken := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }}
	got, err := lookup(t.Context(), broken, "127.0.0.1:http")
	if want := netip.MustParseAddrPort("127.0.0.1:80"); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%v, %v", got, err)
	}
	for _, address := range []string{"127.0.0.1:nosuchservice", "nosuchhost.invalid:1", "127.0.0.1"} {
		if got, err := lookup(t.Context(), broken, address); err == nil {
			t.Errorf("%s: %v", address, got)
		}
	}
}

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

// TestRegisteredKernel checks that a device of a kernel in this process is listed beside those of the
// running one, dialled by its address, and gone with its kernel.
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
