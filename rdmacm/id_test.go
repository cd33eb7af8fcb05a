package rdmacm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var (
	addr4 = netip.MustParseAddrPort("10.1.2.3:7471")
	addr6 = netip.MustParseAddrPort("[2001:db8::1]:7471")

	group4 = netip.MustParseAddr("239.1.2.3")
)

// commands is every command an ID can issue.
var commands = []struct {
	name string
	cmd  uint32
	do   func(*ID) error
}{
	{"bind", abi.RDMA_USER_CM_CMD_BIND, func(id *ID) error { return id.Bind(addr4) }},
	{"listen", abi.RDMA_USER_CM_CMD_LISTEN, func(id *ID) error { return id.Listen(0) }},
	{"resolve address", abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, func(id *ID) error {
		return id.ResolveAddr(netip.AddrPort{}, addr6, time.Second)
	}},
	{"resolve route", abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE, func(id *ID) error { return id.ResolveRoute(time.Second) }},
	{"connect", abi.RDMA_USER_CM_CMD_CONNECT, func(id *ID) error { return id.Connect(context.Background(), nil) }},
	{"accept", abi.RDMA_USER_CM_CMD_ACCEPT, func(id *ID) error { return id.Accept(nil) }},
	{"establish", abi.RDMA_USER_CM_CMD_ACCEPT, (*ID).Establish},
	{"reject", abi.RDMA_USER_CM_CMD_REJECT, func(id *ID) error { return id.Reject(nil) }},
	{"reject", abi.RDMA_USER_CM_CMD_REJECT, func(id *ID) error { return id.RejectECE(nil) }},
	{"disconnect", abi.RDMA_USER_CM_CMD_DISCONNECT, (*ID).Disconnect},
	{"set option TOS", abi.RDMA_USER_CM_CMD_SET_OPTION, func(id *ID) error { return id.SetTOS(8) }},
	{"set option REUSEADDR", abi.RDMA_USER_CM_CMD_SET_OPTION, func(id *ID) error { return id.SetReuseAddr(true) }},
	{"set option AFONLY", abi.RDMA_USER_CM_CMD_SET_OPTION, func(id *ID) error { return id.SetAFOnly(true) }},
	{"set option ACK_TIMEOUT", abi.RDMA_USER_CM_CMD_SET_OPTION, func(id *ID) error { return id.SetAckTimeout(14) }},
	{"init QP attributes for RTR", abi.RDMA_USER_CM_CMD_INIT_QP_ATTR, func(id *ID) error {
		_, _, err := id.InitQPAttr(verbs.QPStateRTR)
		return err
	}},
	{"query", abi.RDMA_USER_CM_CMD_QUERY, func(id *ID) error { _, err := id.QueryAddr(); return err }},
	{"query", abi.RDMA_USER_CM_CMD_QUERY, func(id *ID) error { _, _, err := id.QueryGID(); return err }},
	{"query the paths of", abi.RDMA_USER_CM_CMD_QUERY, func(id *ID) error { _, err := id.QueryPaths(); return err }},
	{"set option PATH", abi.RDMA_USER_CM_CMD_SET_OPTION, func(id *ID) error { return id.SetPath(new(Path)) }},
	{"notify", abi.RDMA_USER_CM_CMD_NOTIFY, func(id *ID) error { return id.Notify(verbs.EventCommEst) }},
	{"join multicast group", abi.RDMA_USER_CM_CMD_JOIN_MCAST, func(id *ID) error {
		_, err := id.JoinMulticast(group4, JoinFullMember)
		return err
	}},
	{"leave multicast group", abi.RDMA_USER_CM_CMD_LEAVE_MCAST, leaveGroup},
	{"migrate", abi.RDMA_USER_CM_CMD_MIGRATE_ID, func(id *ID) error { return id.Migrate(newEventChannel(id.ch.file)) }},
	{"destroy", abi.RDMA_USER_CM_CMD_DESTROY_ID, (*ID).Close},
}

func TestEveryCommandEveryErrno(t *testing.T) {
	for _, c := range commands {
		for errno := syscall.Errno(1); errno < 134; errno++ {
			k := newFake()
			id := newTestID(t, k)
			k.fail(c.cmd, errno)
			err := c.do(id)
			if !errors.Is(err, errno) {
				t.Fatalf("%s: %v answered as %v", c.name, errno, err)
			}
			if want := c.name; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q should begin with %q", err, want)
			}
			k.fail(c.cmd, 0)
			if c.cmd != abi.RDMA_USER_CM_CMD_DESTROY_ID {
				if err := c.do(id); err != nil {
					t.Errorf("%s after %v: %v", c.name, errno, err)
				}
			}
			if err := id.Close(); err != nil {
				t.Errorf("destroy after %s: %v", c.name, err)
			}
		}
	}
}

func TestCreateErrno(t *testing.T) {
	k := newFake()
	k.fail(abi.RDMA_USER_CM_CMD_CREATE_ID, syscall.EACCES)
	ch := newEventChannel(k)
	_, err := ch.NewID(verbs.PortSpaceTCP, 0)
	if !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "credentials changed") {
		t.Error(err)
	}
	if err := ch.Close(); err != nil {
		t.Error("the failed ID is still held:", err)
	}
}

// TestPortSpaceTooWide checks that a port space of more than the kernel's 16 bits is refused, not
// truncated.
func TestPortSpaceTooWide(t *testing.T) {
	k := newFake()
	if _, err := newEventChannel(k).NewID(1<<16|verbs.PortSpaceTCP, verbs.QPTypeRC); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}

func TestWireFormats(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(id.Bind(addr4))
	b := body[abi.RdmaUcmBind](k, abi.RDMA_USER_CM_CMD_BIND)
	want := []byte{2, 0, 0x1d, 0x2f, 10, 1, 2, 3}
	if b.AddrSize != 16 || !bytes.Equal(b.Addr[:8], want) || b.Id != id.handle {
		t.Errorf("bind: size %d, % x", b.AddrSize, b.Addr[:8])
	}
	for backlog, want := range map[int]uint32{5: 5, 0: 0, -1: 0} {
		must(id.Listen(backlog))
		if l := body[abi.RdmaUcmListen](k, abi.RDMA_USER_CM_CMD_LISTEN); l.Id != id.handle || l.Backlog != want {
			t.Errorf("listen: %+v, want backlog %d", l, want)
		}
	}
	must(id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("[fe80::1%7]:1"), 2*time.Second))
	r := body[abi.RdmaUcmResolveAddr](k, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR)
	if r.SrcSize != 0 || r.DstSize != 28 || r.TimeoutMs != 2000 || r.DstAddr[24] != 7 {
		t.Errorf("resolve: %+v", r)
	}
	must(id.SetTOS(0x20))
	if o := body[abi.RdmaUcmSetOption](k, abi.RDMA_USER_CM_CMD_SET_OPTION); o.Optlen != 1 || o.Optval == 0 || k.option[0] != 0x20 {
		t.Errorf("option: %+v, % x", o, k.option)
	}
	must(id.Connect(context.Background(), &ConnParam{PrivateData: []byte("hello"), ResponderResources: -1, InitiatorDepth: 3, ECE: verbs.ECE{VendorID: 7, Options: 8}}))
	if ece := body[abi.RdmaUcmConnect](k, abi.RDMA_USER_CM_CMD_CONNECT).Ece; ece.VendorId != 7 || ece.AttrMod != 8 {
		t.Errorf("connect: %+v", ece)
	}
	c := body[abi.RdmaUcmConnect](k, abi.RDMA_USER_CM_CMD_CONNECT).ConnParam
	if c.Valid != 1 || c.PrivateDataLen != 5 || string(c.PrivateData[:5]) != "hello" ||
		c.ResponderResources != 0 || c.InitiatorDepth != 3 || c.RetryCount != 7 || c.RnrRetryCount != 7 {
		t.Errorf("connect: %+v", c)
	}
	must(id.Establish())
	if a := body[abi.RdmaUcmAccept](k, abi.RDMA_USER_CM_CMD_ACCEPT); a.ConnParam.Valid != 0 || a.Uid != 0 {
		t.Errorf("establish: %+v", a)
	}
	must(id.Accept(&ConnParam{ECE: verbs.ECE{VendorID: 7, Options: 9}}))
	if ece := body[abi.RdmaUcmAccept](k, abi.RDMA_USER_CM_CMD_ACCEPT).Ece; ece.VendorId != 7 || ece.AttrMod != 9 {
		t.Errorf("accept: %+v", ece)
	}
	must(id.Notify(verbs.EventCommEst))
	if n := body[abi.RdmaUcmNotify](k, abi.RDMA_USER_CM_CMD_NOTIFY); n.Id != id.handle || n.Event != 4 {
		t.Errorf("notify: %+v", n)
	}
	for want, reject := range map[uint8]func([]byte) error{0: id.Reject, 35: id.RejectECE} {
		must(reject(nil))
		if r := body[abi.RdmaUcmReject](k, abi.RDMA_USER_CM_CMD_REJECT); r.Id != id.handle || r.Reason != want {
			t.Errorf("reject: %+v, want reason %d", r, want)
		}
	}
	must(id.Accept(nil))
	if a := body[abi.RdmaUcmAccept](k, abi.RDMA_USER_CM_CMD_ACCEPT); a.ConnParam.Valid != 1 || a.Uid != id.uid {
		t.Errorf("accept: %+v", a)
	}
}

func TestSockaddr(t *testing.T) {
	for _, s := range []string{"10.1.2.3:7471", "[2001:db8::1]:7471", "0.0.0.0:0", "[::]:65535", "[fe80::1%999999]:1"} {
		addr, b := netip.MustParseAddrPort(s), [128]byte{}
		if _, err := putSockaddr(&b, addr); err != nil {
			t.Fatal(err)
		}
		if got := sockaddr(&b); got != addr {
			t.Errorf("%v came back as %v", addr, got)
		}
	}
	var b [128]byte
	if got := sockaddr(&b); got.IsValid() {
		t.Error("no address became", got)
	}
	if _, err := putSockaddr(&b, netip.MustParseAddrPort("[fe80::1]:1")); err == nil {
		t.Error("a link-local address without interface was accepted")
	}
	if _, err := putSockaddr(&b, netip.MustParseAddrPort("[fe80::1%nosuchinterface]:1")); err == nil {
		t.Error("an unknown interface was accepted")
	}
}

func TestPrivateDataLimits(t *testing.T) {
	tests := []struct {
		name    string
		iwarp   bool
		do      func(*ID, []byte) error
		allowed int
	}{
		{"connect IB", false, func(id *ID, b []byte) error { return id.Connect(context.Background(), &ConnParam{PrivateData: b}) }, 56},
		{"accept IB", false, func(id *ID, b []byte) error { return id.Accept(&ConnParam{PrivateData: b}) }, 196},
		{"reject IB", false, (*ID).Reject, 148},
		{"connect iWARP", true, func(id *ID, b []byte) error { return id.Connect(context.Background(), &ConnParam{PrivateData: b}) }, 251},
		{"accept iWARP", true, func(id *ID, b []byte) error { return id.Accept(&ConnParam{PrivateData: b}) }, 251},
		{"reject iWARP", true, (*ID).Reject, 251},
	}
	for _, test := range tests {
		k := newFake()
		k.iwarp = test.iwarp
		for _, attached := range []bool{true, false} {
			id := newTestID(t, k)
			if attached {
				if err := id.attach(&fakeQP{}, readLimits{16, 16}); err != nil {
					t.Fatal(err)
				}
			}
			if err := test.do(id, make([]byte, test.allowed)); err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			if err := test.do(id, make([]byte, test.allowed+1)); !errors.Is(err, errPrivateData) ||
				!strings.Contains(err.Error(), fmt.Sprintf("%d allowed", test.allowed)) {
				t.Errorf("%s, one more: %v", test.name, err)
			}
		}
	}
}

// A datagram ID's limits hold before the transport is known.
func TestDatagramPrivateDataLimits(t *testing.T) {
	for name, test := range map[string]struct {
		do      func(*ID, []byte) error
		allowed int
	}{
		"connect": {func(id *ID, b []byte) error { return id.Connect(context.Background(), &ConnParam{PrivateData: b}) }, 180},
		"accept":  {func(id *ID, b []byte) error { return id.Accept(&ConnParam{PrivateData: b}) }, 136},
		"reject":  {(*ID).Reject, 136},
	} {
		id := newDatagramID(t, newFake())
		if err := test.do(id, make([]byte, test.allowed)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := test.do(id, make([]byte, test.allowed+1)); !errors.Is(err, errPrivateData) {
			t.Errorf("%s, one more: %v", name, err)
		}
	}
}

func TestReadLimits(t *testing.T) {
	tests := []struct {
		name         string
		limits       connLimits
		param        ConnParam
		res, depth   uint8
		wantRejected bool
	}{
		{"nothing known", connLimits{}, ConnParam{}, 0, 0, false},
		{"the device's", connLimits{device: &readLimits{16, 8}}, ConnParam{}, 16, 8, false},
		{"the peer's", connLimits{peer: &readLimits{4, 2}}, ConnParam{}, 4, 2, false},
		{"the lesser", connLimits{&readLimits{16, 2}, &readLimits{4, 8}}, ConnParam{}, 4, 2, false},
		{"none", connLimits{device: &readLimits{16, 8}}, ConnParam{ResponderResources: -1, InitiatorDepth: -1}, 0, 0, false},
		{"given", connLimits{device: &readLimits{16, 8}}, ConnParam{ResponderResources: 3, InitiatorDepth: 5}, 3, 5, false},
		{"too many", connLimits{device: &readLimits{16, 8}}, ConnParam{InitiatorDepth: 9}, 0, 0, true},
	}
	for _, test := range tests {
		res, depth, err := test.limits.negotiate(&test.param)
		if (err != nil) != test.wantRejected || errors.Is(err, syscall.EINVAL) != test.wantRejected {
			t.Errorf("%s: %v", test.name, err)
		}
		if res != test.res || depth != test.depth {
			t.Errorf("%s: %d, %d", test.name, res, depth)
		}
	}
}

func TestQPStates(t *testing.T) {
	k := newFake()
	id, qp := newTestID(t, k), new(fakeQP)
	id.limits.peer = &readLimits{4, 3}
	if err := id.attach(qp, readLimits{16, 16}); err != nil {
		t.Fatal(err)
	}
	if err := id.Accept(nil); err != nil {
		t.Fatal(err)
	}
	want := []verbs.QPState{verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS}
	if diff := cmp.Diff(want, qp.states); diff != "" {
		t.Error("RoCE accept:", diff)
	}
	if qp.attrs[1].MaxDestRDAtomic != 4 || qp.attrs[2].MaxRDAtomic != 3 {
		t.Errorf("limits not applied: %+v", qp.attrs[1:])
	}
	if qp.masks[1]&(unusedMask|verbs.QPAttrAccess) != 0 {
		t.Error("reserved bits were passed on, or access that was set before:", qp.masks[1])
	}
	if n := body[abi.RdmaUcmAccept](k, abi.RDMA_USER_CM_CMD_ACCEPT).ConnParam.QpNum; n != 42 {
		t.Error("QP number", n)
	}

	k.iwarp = true
	id, qp = newTestID(t, k), new(fakeQP)
	if err := id.attach(qp, readLimits{16, 16}); err != nil {
		t.Fatal(err)
	}
	if err := id.Accept(nil); err != nil {
		t.Fatal(err)
	}
	if err := id.Disconnect(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]verbs.QPState{verbs.QPStateInit}, qp.states); diff != "" {
		t.Error("iWARP accept:", diff)
	}
	if qp.masks[0] != 0x29 {
		t.Error("mask not passed as given:", qp.masks[0])
	}
}

func TestDatagramQPStates(t *testing.T) {
	k := newFake()
	id := newDatagramID(t, k)
	if typ := body[abi.RdmaUcmCreateId](k, abi.RDMA_USER_CM_CMD_CREATE_ID).QpType; verbs.QPType(typ) != verbs.QPTypeUD {
		t.Error("QP type", typ)
	}
	qp := new(fakeQP)
	if err := id.attach(qp, readLimits{}); err != nil {
		t.Fatal(err)
	}
	want := []verbs.QPState{verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS}
	if diff := cmp.Diff(want, qp.states); diff != "" {
		t.Error(diff)
	}
}

func TestAcceptFailureFailsQP(t *testing.T) {
	k := newFake()
	id, qp := newTestID(t, k), new(fakeQP)
	if err := id.attach(qp, readLimits{16, 16}); err != nil {
		t.Fatal(err)
	}
	k.fail(abi.RDMA_USER_CM_CMD_ACCEPT, syscall.ENOTCONN)
	if err := id.Accept(nil); !errors.Is(err, syscall.ENOTCONN) {
		t.Error(err)
	}
	if last := qp.states[len(qp.states)-1]; last != verbs.QPStateErr {
		t.Error("QP left in", last)
	}
}

// A device that was found through sysfs alone has no index.
func TestAddrIsOn(t *testing.T) {
	a := &Addr{DeviceIndex: 3, NodeGUID: 7}
	for _, test := range []struct {
		info uverbs.DeviceInfo
		want bool
	}{
		{uverbs.DeviceInfo{Index: 3, NodeGUID: 7}, true},
		{uverbs.DeviceInfo{Index: 0, NodeGUID: 7}, true},
		{uverbs.DeviceInfo{Index: 2, NodeGUID: 7}, false},
		{uverbs.DeviceInfo{Index: 3, NodeGUID: 8}, false},
		{uverbs.DeviceInfo{Index: 0, NodeGUID: 8}, false},
	} {
		if got := a.isOn(test.info); got != test.want {
			t.Errorf("%+v: %v", test.info, got)
		}
	}
}

// The kernel writes a node GUID most significant byte first.
func TestNodeGUID(t *testing.T) {
	wire := binary.NativeEndian.Uint64([]byte{0x02, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55})
	if got := nodeGUID(wire); got != 0x021122fffe334455 {
		t.Errorf("%#x", uint64(got))
	}
}

// TestDestroyTwice checks that a second Close returns only when the first has destroyed the kernel's ID: what follows may
// be the end of the channel. A dial that is given up while it connects destroys its ID twice.
func TestDestroyTwice(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	second := make(chan error, 1)
	early := false
	k.onCall = func(cmd uint32, _ []byte) {
		if cmd != abi.RDMA_USER_CM_CMD_DESTROY_ID {
			return
		}
		started := make(chan struct{})
		go func() {
			close(started)
			second <- id.Close()
		}()
		<-started
		for range 1000 {
			runtime.Gosched()
		}
		early = len(second) > 0
	}
	if err := id.Close(); err != nil {
		t.Error(err)
	}
	if err := <-second; early || !errors.Is(err, net.ErrClosed) {
		t.Errorf("the second call returned before the first one's command: %t; %v", early, err)
	}
	if n := k.count(abi.RDMA_USER_CM_CMD_DESTROY_ID); n != 1 {
		t.Error(n, "commands")
	}
}
