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
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

// useFake lets Dial and Listen talk to k.
func useFake(t *testing.T, k *fakeKernel) {
	t.Helper()
	old := openChannel
	openChannel = func() (*EventChannel, error) { return newEventChannel(k), nil }
	t.Cleanup(func() { openChannel = old })
}

func mustListen(t *testing.T, k *fakeKernel, address string, cfg *Config) *Listener {
	t.Helper()
	useFake(t, k)
	l, err := Listen(address, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// sendRequest has the fake deliver a connect request for the new handle.
func sendRequest(k *fakeKernel, listener, handle uint32) {
	k.report(listener, EventConnectRequest, func(ev *abi.RdmaUcmEventResp) { ev.Id = handle })
}

// eventually waits for what another goroutine is about to do.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatal(what, "did not happen")
}

func TestListenFamilies(t *testing.T) {
	tests := []struct {
		address string
		ids     int
	}{{":7471", 2}, {"0.0.0.0:7471", 1}, {"[::]:7471", 1}, {"10.0.0.1:7471", 1}}
	for _, test := range tests {
		k := newFake()
		l := mustListen(t, k, test.address, nil)
		if n := k.count(abi.RDMA_USER_CM_CMD_LISTEN); n != test.ids {
			t.Errorf("%s: %d IDs, want %d", test.address, n, test.ids)
		}
		for range 2 { // closing twice is as closing once
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if n := k.count(abi.RDMA_USER_CM_CMD_DESTROY_ID); n != test.ids {
			t.Errorf("%s: %d destroyed", test.address, n)
		}
		if _, err := l.Next(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

func TestListenErrno(t *testing.T) {
	for _, cmd := range []uint32{abi.RDMA_USER_CM_CMD_CREATE_ID, abi.RDMA_USER_CM_CMD_SET_OPTION,
		abi.RDMA_USER_CM_CMD_BIND, abi.RDMA_USER_CM_CMD_LISTEN, abi.RDMA_USER_CM_CMD_QUERY} {
		k := newFake()
		useFake(t, k)
		k.fail(cmd, syscall.EADDRINUSE)
		if _, err := Listen(":7471", nil); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("command %d: %v", cmd, err)
		}
		select {
		case <-k.closed:
		default:
			t.Errorf("command %d: the channel was left open", cmd)
		}
	}
}

func TestListenWithoutIPv6(t *testing.T) {
	k := newFake()
	k.onCall = func(cmd uint32, body []byte) {
		if cmd == abi.RDMA_USER_CM_CMD_BIND && view[abi.RdmaUcmBind](body).Addr[0] == afInet6 {
			k.fail(cmd, syscall.EAFNOSUPPORT)
		}
	}
	if err := mustListen(t, k, ":7471", nil).Close(); err != nil {
		t.Error(err)
	}
}

func TestNextAndReject(t *testing.T) {
	k := newFake()
	l := mustListen(t, k, "10.0.0.1:1", nil)
	sendRequest(k, 1, 50)
	r, err := l.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil { // the request outlives the listener
		t.Error(err)
	}
	if err := r.Reject([]byte("no")); err != nil {
		t.Error(err)
	}
	if b := body[abi.RdmaUcmReject](k, abi.RDMA_USER_CM_CMD_REJECT); b.Id != 50 || b.PrivateDataLen != 2 {
		t.Errorf("%+v", b)
	}
	<-k.closed // by the last who held it
	if err := r.Reject(nil); !errors.Is(err, net.ErrClosed) {
		t.Error("second answer:", err)
	}
	if _, err := r.Accept(t.Context(), nil); !errors.Is(err, net.ErrClosed) {
		t.Error("second answer:", err)
	}
}

func TestNextContext(t *testing.T) {
	k := newFake()
	l := mustListen(t, k, "10.0.0.1:1", nil)
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Next(ctx); err != context.Canceled {
		t.Error(err)
	}
}

func TestBacklog(t *testing.T) {
	k := newFake()
	l := mustListen(t, k, "10.0.0.1:1", &Config{Backlog: 2})
	for handle := range uint32(3) {
		sendRequest(k, 1, 50+handle)
	}
	eventually(t, "rejecting the third", func() bool { return k.count(abi.RDMA_USER_CM_CMD_REJECT) == 1 })
	if b := body[abi.RdmaUcmReject](k, abi.RDMA_USER_CM_CMD_REJECT); b.Id != 52 {
		t.Error("rejected", b.Id)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if n := k.count(abi.RDMA_USER_CM_CMD_REJECT); n != 3 {
		t.Error("rejected", n)
	}
	if n := k.count(abi.RDMA_USER_CM_CMD_DESTROY_ID); n != 4 {
		t.Error(n, "IDs destroyed, want those of the three requests and the listener's")
	}
	<-k.closed
}

func TestChannelBreaks(t *testing.T) {
	k := newFake()
	l := mustListen(t, k, "10.0.0.1:1", nil)
	k.fail(abi.RDMA_USER_CM_CMD_GET_EVENT, syscall.EACCES)
	k.report(1, EventAddrChange, nil) // has the waiting Get return once
	ended(t, l, syscall.EACCES)
}

// ended: each wait tells that the listener has ended, and why.
func ended(t *testing.T, l *Listener, cause error) {
	t.Helper()
	for range 2 {
		_, err := l.Next(t.Context())
		if !errors.Is(err, cause) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("next: %v, want %v", err, cause)
		}
		_, err = l.Accept(t.Context())
		if !errors.Is(err, cause) || !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), cause.Error()) {
			t.Errorf("accept: %v, want %v", err, cause)
		}
	}
}

// Nobody would flush the queue pairs of a channel without events.
func TestChannelBreaksConn(t *testing.T) {
	k := newFake()
	id, qp := newTestID(t, k), new(fakeQP)
	c := newConn(nil)
	id.setSink(c)
	if err := id.attach(qp, readLimits{16, 16}); err != nil {
		t.Fatal(err)
	}
	id.ch.broken(syscall.EACCES)
	if err := c.Err(); !errors.Is(err, syscall.EACCES) {
		t.Error(err)
	}
	if last := qp.states[len(qp.states)-1]; last != uverbs.QPStateErr {
		t.Error("QP left in", last)
	}
}

func TestListenerLosesDevice(t *testing.T) {
	k := newFake()
	l := mustListen(t, k, "10.0.0.1:1", nil)
	defer l.Close()
	k.report(1, EventDeviceRemoval, nil)
	ended(t, l, ErrDeviceRemoved)
}

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
		{name: "create", cmd: abi.RDMA_USER_CM_CMD_CREATE_ID, want: "rdmacm: dial: create ID 10.0.0.1:7471: no such device"},
		{name: "resolve", cmd: abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, want: "rdmacm: dial: resolve address 10.0.0.1:7471: no such device (no RDMA device on the interface that routes to 10.0.0.1; rdmalink show lists the devices, ip route get the interface)"},
		{name: "resolve event", on: abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, typ: EventAddrError, want: "rdmacm: dial: resolve address 10.0.0.1:7471: no such device (no RDMA device"},
		{name: "route", cmd: abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE, want: "rdmacm: dial: resolve route 10.0.0.1:7471: no such device"},
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
		_, err := Dial(t.Context(), dst, nil)
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

// What times out is tried three times.
func TestDialRetries(t *testing.T) {
	k := newFake()
	useFake(t, k)
	k.onCall = func(cmd uint32, _ []byte) {
		if cmd == abi.RDMA_USER_CM_CMD_RESOLVE_ADDR {
			k.report(1, EventAddrError, func(ev *abi.RdmaUcmEventResp) { ev.Status = uint32(1<<32 - int64(syscall.ETIMEDOUT)) })
		}
	}
	_, err := DialAddrPort(t.Context(), addr4, &Config{ResolveTimeout: 7 * time.Millisecond})
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
		_, err := DialAddrPort(ctx, addr4, &udConfig)
		want := "rdmacm: dial: " + test.at + " 10.1.2.3:7471: " + test.end.Error()
		if !errors.Is(err, test.end) || err.Error() != want {
			t.Errorf("%s: %v, want %s", test.name, err, want)
		}
		var netErr net.Error
		timeout := test.end == context.DeadlineExceeded
		if !errors.As(err, &netErr) || netErr.Timeout() != timeout || netErr.(*OpError).Temporary() != timeout {
			t.Errorf("%s: %#v", test.name, err)
		}
		<-w.cms[0].closed // in the background
		if _, err := DialAddrPort(ctx, addr4, nil); !errors.Is(err, test.end) || !strings.Contains(err.Error(), addr4.String()) {
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
		var err net.Error = &OpError{Op: "dial", Err: test.err}
		if err.Timeout() != test.timeout || err.(*OpError).Temporary() != test.temporary {
			t.Errorf("%v: timeout %v, temporary %v", err, err.Timeout(), err.(*OpError).Temporary())
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
	if err := id.Connect(ctx, nil); err != context.Canceled {
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

func TestOwnedFree(t *testing.T) {
	var freed []int
	fails := map[int]error{0: net.ErrClosed, 1: uverbs.ErrInUse, 3: syscall.EBUSY}
	var o owned
	for i := range 5 {
		o.add(func() error {
			freed = append(freed, i)
			return fails[i]
		})
	}
	if err := o.free(); !errors.Is(err, uverbs.ErrInUse) || !errors.Is(err, syscall.EBUSY) {
		t.Error(err)
	}
	delete(fails, 1)
	if err := o.free(); !errors.Is(err, syscall.EBUSY) || errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	delete(fails, 3)
	for range 2 {
		if err := o.free(); err != nil {
			t.Error(err)
		}
	}
	if want := []int{4, 3, 2, 1, 3, 1, 0, 3}; !slices.Equal(freed, want) {
		t.Errorf("freed %v, want %v", freed, want)
	}
}

type closer func() error

func (c closer) Close() error { return c() }

// What a closed Conn is given it closes at once, or, failing that, when closed
// again.
func TestOwnAfterClose(t *testing.T) {
	c, _ := connOnFake(t, false)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	var calls int
	fail := error(nil)
	child := closer(func() error { calls++; return fail })
	if c.Own(child); calls != 1 {
		t.Error("closed", calls, "times")
	}
	fail = syscall.EBUSY
	c.Own(child)
	if err := c.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Error(err)
	}
	fail = nil
	if err := c.Close(); err != nil || calls != 4 {
		t.Error(err, calls)
	}
}
