package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/verbs"
)

func TestDialUD(t *testing.T) {
	w := newDatagramWorld(t)
	c, err := dialAddr(t.Context(), addr4, &udConfig)
	if err != nil {
		t.Fatal(err)
	}
	k := w.cms[0]
	if b := body[abi.RdmaUcmCreateId](k, abi.RDMA_USER_CM_CMD_CREATE_ID); verbs.PortSpace(b.Ps) != verbs.PortSpaceUDP {
		t.Errorf("%+v", b)
	}
	if b := body[abi.RdmaUcmConnect](k, abi.RDMA_USER_CM_CMD_CONNECT); b.ConnParam.PrivateDataLen != 5 {
		t.Errorf("%+v", b)
	}
	p := c.Peer()
	if p.QPN != 77 || p.QKey != 0x01234567 || string(p.PrivateData) != "me" || string(c.PrivateData()) != "me" {
		t.Errorf("%+v", p)
	}
	if p.QKey != UDPQKey || c.DevicePort() != 1 || c.LocalAddr() != addr4 || c.RemoteAddr() != addr4 {
		t.Errorf("Q_Key %#x, device port %d, %v to %v", p.QKey, c.DevicePort(), c.LocalAddr(), c.RemoteAddr())
	}
	if ahs := w.verbs.AddressHandles(); len(ahs) != 1 || ahs[0].Attr.Grh.Dgid != fakeverbs.IPv4GID {
		t.Errorf("%+v", ahs)
	}
	if qp := w.verbs.QueuePairs()[0]; qp.State() != abi.IB_QPS_RTS {
		t.Error("QP in", qp.State())
	}
	if err := c.Disconnect(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	closeConn(t, c)
	w.empty()
}

// udSteps are the commands of each way to do something with datagrams.
var udSteps = []struct {
	name string
	do   func(*world) error
	cmds []uint32
}{
	{"dial", func(w *world) error { _, err := dialAddr(w.t.Context(), addr4, &udConfig); return err },
		[]uint32{abi.RDMA_USER_CM_CMD_CREATE_ID, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE,
			abi.RDMA_USER_CM_CMD_QUERY, abi.RDMA_USER_CM_CMD_INIT_QP_ATTR, abi.RDMA_USER_CM_CMD_CONNECT}},
	{"open", func(w *world) error { _, err := OpenUD(local4, nil); return err },
		[]uint32{abi.RDMA_USER_CM_CMD_CREATE_ID, abi.RDMA_USER_CM_CMD_BIND, abi.RDMA_USER_CM_CMD_QUERY, abi.RDMA_USER_CM_CMD_INIT_QP_ATTR}},
}

func TestUDEveryErrno(t *testing.T) {
	w := newDatagramWorld(t)
	for _, step := range udSteps {
		for _, cmd := range step.cmds {
			for errno := syscall.Errno(1); errno < 134; errno++ {
				w.fail(cmd, errno)
				if err := step.do(w); !errors.Is(err, errno) || !errors.As(err, new(*verbs.Error)) {
					t.Errorf("%s, command %d: %v answered as %v", step.name, cmd, errno, err)
				}
				w.fail(cmd, 0)
				w.empty()
			}
		}
	}
}

// A Conn survives all failures of a sibling, and a later attempt succeeds.
func TestUDSideEveryErrno(t *testing.T) {
	w := newDatagramWorld(t)
	c := w.openUD()
	k := w.cms[0]
	for _, step := range []struct {
		name string
		do   func() error
		cmds []uint32
	}{
		{"look up", func() error {
			p, err := c.Lookup(t.Context(), "10.0.0.1:1", []byte("you?"))
			if err == nil {
				err = p.AH.Close()
			}
			return err
		}, []uint32{abi.RDMA_USER_CM_CMD_CREATE_ID, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE,
			abi.RDMA_USER_CM_CMD_QUERY, abi.RDMA_USER_CM_CMD_CONNECT}},
		{"join", func() error {
			g, err := c.JoinMulticast(t.Context(), group4, JoinFullMember)
			if err == nil {
				err = g.Close()
			}
			return err
		}, []uint32{abi.RDMA_USER_CM_CMD_CREATE_ID, abi.RDMA_USER_CM_CMD_BIND, abi.RDMA_USER_CM_CMD_QUERY, abi.RDMA_USER_CM_CMD_JOIN_MCAST}},
	} {
		made := k.count(abi.RDMA_USER_CM_CMD_CREATE_ID)
		for _, cmd := range step.cmds {
			for errno := syscall.Errno(1); errno < 134; errno++ {
				k.fail(cmd, errno)
				if err := step.do(); !errors.Is(err, errno) || !errors.As(err, new(*verbs.Error)) {
					t.Errorf("%s, command %d: %v answered as %v", step.name, cmd, errno, err)
				}
				k.fail(cmd, 0)
				if err := step.do(); err != nil {
					t.Errorf("%s after command %d, %v: %v", step.name, cmd, errno, err)
				}
			}
		}
		if k.count(abi.RDMA_USER_CM_CMD_CREATE_ID) == made {
			t.Error("nothing was made")
		}
	}
	if n := len(c.hub.ch.ids); n != 1 {
		t.Error(n, "IDs on the channel")
	}
	closeConn(t, c)
	w.empty()
}

// If the device fails, the objects created before are freed.
func TestUDDeviceErrors(t *testing.T) {
	w := newDatagramWorld(t)
	c := w.openUD()
	lookup := func() error { _, err := c.Lookup(t.Context(), "10.0.0.1:1", nil); return err }
	join := func() error {
		_, err := c.JoinMulticast(t.Context(), group4, JoinFullMember)
		return err
	}
	before := len(w.verbs.Alive())
	for _, test := range []struct {
		call string
		do   func() error
	}{{"CREATE_AH", lookup}, {"CREATE_AH", join}, {"ATTACH_MCAST", join}} {
		w.verbs.Fail(test.call, 0, syscall.ENOMEM)
		if err := test.do(); !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("%s: %v", test.call, err)
		}
		if alive := w.verbs.Alive(); len(alive) != before || len(c.groups) != 0 {
			t.Errorf("%s: %v", test.call, alive)
		}
	}
	w.event = func(ev *abi.RdmaUcmEventResp) {
		ev.Event, ev.Status = uint32(EventMulticastError), uint32(1<<32-int64(syscall.EINVAL))
	}
	if err := join(); !errors.Is(err, syscall.EINVAL) || !strings.HasPrefix(err.Error(), "join multicast group 239.1.2.3: ") {
		t.Error(err)
	}
	w.event = func(ev *abi.RdmaUcmEventResp) { ev.Event, ev.Status = uint32(EventUnreachable), 2 }
	var rejected *RejectedError
	if err := lookup(); !errors.As(err, &rejected) || rejected.Reason != RejectConsumer || string(rejected.PrivateData) != "me" {
		t.Error(err)
	}
	closeConn(t, c)
	w.empty()
}

func TestGroups(t *testing.T) {
	w := newDatagramWorld(t)
	c := w.openUD()
	g, err := c.JoinMulticast(t.Context(), group4, JoinFullMember)
	if err != nil {
		t.Fatal(err)
	}
	if g.QPN != 77 || g.Addr != group4 || g.AH == nil {
		t.Errorf("%+v", g)
	}
	if _, err := c.JoinMulticast(t.Context(), group4, JoinSendOnly); err != nil {
		t.Fatal(err)
	}
	if n := w.verbs.Calls("ATTACH_MCAST"); n != 1 {
		t.Error(n, "times attached")
	}
	w.cms[0].fail(abi.RDMA_USER_CM_CMD_DESTROY_ID, syscall.EBUSY)
	if err := g.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Error(err)
	}
	w.cms[0].fail(abi.RDMA_USER_CM_CMD_DESTROY_ID, 0)
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	closeConn(t, c) // and leaves the other
	if _, err := c.JoinMulticast(t.Context(), group4, JoinFullMember); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := c.Lookup(t.Context(), "10.0.0.1:1", nil); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	w.empty()
}

// A context ends a wait for the kernel's event; nothing is left of the attempt.
func TestUDContext(t *testing.T) {
	w := newDatagramWorld(t)
	c := w.openUD()
	ctx, cancel := context.WithCancel(t.Context())
	w.event = func(ev *abi.RdmaUcmEventResp) { ev.Event = uint32(EventAddrChange); cancel() }
	var noEvents atomic.Bool // an event would be taken before the context's end
	w.done = func(cmd uint32) bool { return noEvents.Load() && cmd == abi.RDMA_USER_CM_CMD_RESOLVE_ADDR }
	if _, err := c.JoinMulticast(ctx, group4, JoinFullMember); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "join multicast group 239.1.2.3: ") {
		t.Error(err)
	}
	noEvents.Store(true)
	if _, err := c.Lookup(ctx, "10.0.0.1:1", nil); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "look up 10.0.0.1:1: resolve address: ") {
		t.Error(err)
	}
	eventually(t, "destroying the IDs", func() bool {
		c.hub.ch.mu.Lock()
		defer c.hub.ch.mu.Unlock()
		return len(c.hub.ch.ids) == 1
	})
	closeConn(t, c)
	eventually(t, "closing the channel", func() bool {
		select {
		case <-w.cms[0].closed:
			return true
		default:
			return false
		}
	})
	w.empty()
}

func TestOpenUDAddresses(t *testing.T) {
	w := newDatagramWorld(t)
	for _, local := range []netip.Addr{{}, netip.IPv4Unspecified(), netip.IPv6Unspecified(), netip.IPv6Loopback()} {
		if _, err := OpenUD(local, nil); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v: %v", local, err)
		}
	}
	w.empty()
}

// A connected Conn has no datagrams.
func TestSideOfConnected(t *testing.T) {
	c, _ := connOnFake(t, false)
	_, lookupErr := c.Lookup(t.Context(), "10.0.0.1:1", nil)
	_, joinErr := c.JoinMulticast(t.Context(), group4, JoinFullMember)
	for _, err := range []error{lookupErr, joinErr} {
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "only a datagram Conn") {
			t.Error(err)
		}
	}
}

// Preparation comes before anybody can know of the queue pair.
func TestPrepareDatagram(t *testing.T) {
	w := newDatagramWorld(t)
	var seen []uint32
	cfg := udConfig
	cfg.Prepare = func(*Conn) error { seen = slices.Clone(w.cms[0].calls); return nil }
	c, err := dialAddr(t.Context(), addr4, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) == 0 || slices.Contains(seen, abi.RDMA_USER_CM_CMD_CONNECT) {
		t.Error(seen)
	}
	closeConn(t, c)
	w.empty()
}
