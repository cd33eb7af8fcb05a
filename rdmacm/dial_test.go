package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
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
