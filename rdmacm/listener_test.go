package rdmacm

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// useFake lets Dial and Listen talk to k.
func useFake(t *testing.T, k *fakeKernel) {
	t.Helper()
	(&host{channel: func() kernel.CM { return k }}).register(t, uverbs.DeviceInfo{})
}

func mustListen(t *testing.T, k *fakeKernel, address string, lc *ListenConfig) *Listener {
	t.Helper()
	useFake(t, k)
	l, err := lc.Listen(t.Context(), address)
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
		l := mustListen(t, k, test.address, &ListenConfig{})
		if n := k.count(abi.RDMA_USER_CM_CMD_LISTEN); n != test.ids {
			t.Errorf("%s: %d IDs, want %d", test.address, n, test.ids)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			t.Error("again:", err)
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
		if _, err := Listen(t.Context(), ":7471"); !errors.Is(err, syscall.EADDRINUSE) {
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
	if err := mustListen(t, k, ":7471", &ListenConfig{}).Close(); err != nil {
		t.Error(err)
	}
}

func TestNextAndReject(t *testing.T) {
	k := newFake()
	l := mustListen(t, k, "10.0.0.1:1", &ListenConfig{})
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

// A request of an ID that the kernel says nothing about is refused, and nothing is left
// of it.
func TestRequestUnknown(t *testing.T) {
	k := newFake()
	l := mustListen(t, k, "10.0.0.1:1", &ListenConfig{})
	k.fail(abi.RDMA_USER_CM_CMD_QUERY, syscall.ENODEV)
	sendRequest(k, 1, 50)
	if _, err := l.Next(t.Context()); !errors.Is(err, syscall.ENODEV) {
		t.Error(err)
	}
	if b := body[abi.RdmaUcmDestroyId](k, abi.RDMA_USER_CM_CMD_DESTROY_ID); b.Id != 50 { // which rejects it
		t.Errorf("%+v", b)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	<-k.closed // nobody holds the hub any more
}

func TestNextContext(t *testing.T) {
	k := newFake()
	l := mustListen(t, k, "10.0.0.1:1", &ListenConfig{})
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for name, wait := range map[string]func() error{
		"Next":   func() error { _, err := l.Next(ctx); return err },
		"Accept": func() error { _, err := l.Accept(ctx); return err },
	} {
		var e *verbs.Error
		if err := wait(); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || !e.Timeout() || e.Object != l.Addr().String() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBacklog(t *testing.T) {
	k := newFake()
	l := mustListen(t, k, "10.0.0.1:1", &ListenConfig{Backlog: 2})
	for handle := range uint32(3) {
		sendRequest(k, 1, 50+handle)
	}
	// The kernel rejects a request whose ID is destroyed.
	eventually(t, "destroying the third", func() bool { return k.count(abi.RDMA_USER_CM_CMD_DESTROY_ID) == 1 })
	if b := body[abi.RdmaUcmDestroyId](k, abi.RDMA_USER_CM_CMD_DESTROY_ID); b.Id != 52 {
		t.Error("destroyed", b.Id)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if n := k.count(abi.RDMA_USER_CM_CMD_DESTROY_ID); n != 4 {
		t.Error(n, "IDs destroyed, want those of the three requests and the listener's")
	}
	<-k.closed
}

// TestRefusalDelaysNoEvent checks that a request that is being refused delays no request behind it.
func TestRefusalDelaysNoEvent(t *testing.T) {
	k := newFake()
	l := mustListen(t, k, "10.0.0.1:1", &ListenConfig{Backlog: 1})
	begun, release := make(chan struct{}), make(chan struct{})
	k.mu.Lock()
	k.onCall = func(cmd uint32, body []byte) {
		if cmd == abi.RDMA_USER_CM_CMD_DESTROY_ID && view[abi.RdmaUcmDestroyId](body).Id == 51 {
			close(begun)
			<-release
		}
	}
	k.mu.Unlock()
	sendRequest(k, 1, 50)
	sendRequest(k, 1, 51)
	<-begun
	for _, want := range []uint32{50, 52} {
		if want == 52 {
			sendRequest(k, 1, want)
		}
		r, err := l.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.id.handle != want {
			t.Errorf("request %d, want %d", r.id.handle, want)
		}
		if err := r.Reject(nil); err != nil {
			t.Error(err)
		}
	}
	close(release)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	<-k.closed
}

func TestChannelBreaks(t *testing.T) {
	k := newFake()
	l := mustListen(t, k, "10.0.0.1:1", &ListenConfig{})
	k.fail(abi.RDMA_USER_CM_CMD_GET_EVENT, syscall.EACCES)
	k.report(1, EventAddrChange, nil) // has the waiting Get return once
	ended(t, l, syscall.EACCES)
}

// ended: each wait returns the end of the listener, and its cause.
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
	if last := qp.states[len(qp.states)-1]; last != verbs.QPStateErr {
		t.Error("QP left in", last)
	}
}

func TestListenerLosesDevice(t *testing.T) {
	k := newFake()
	l := mustListen(t, k, "10.0.0.1:1", &ListenConfig{})
	defer l.Close()
	k.report(1, EventDeviceRemoval, nil)
	ended(t, l, ErrDeviceRemoved)
}

func TestOwnedFree(t *testing.T) {
	var freed []int
	fails := map[int]error{0: net.ErrClosed, 1: verbs.ErrInUse, 3: syscall.EBUSY}
	var o conn.Owned
	for i := range 5 {
		o.Add(conn.Freeing(func() error {
			freed = append(freed, i)
			return fails[i]
		}))
	}
	if err := o.Free(); !errors.Is(err, verbs.ErrInUse) || !errors.Is(err, syscall.EBUSY) {
		t.Error(err)
	}
	delete(fails, 1)
	if err := o.Free(); !errors.Is(err, syscall.EBUSY) || errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	delete(fails, 3)
	for range 2 {
		if err := o.Free(); err != nil {
			t.Error(err)
		}
	}
	if want := []int{4, 3, 2, 1, 3, 1, 0, 3}; !slices.Equal(freed, want) {
		t.Errorf("freed %v, want %v", freed, want)
	}
}

// Own of a closed Conn closes the object at once, or, failing that, when closed
// again.
func TestOwnAfterClose(t *testing.T) {
	c, _ := connOnFake(t, false)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	var calls int
	fail := error(nil)
	child := conn.Freeing(func() error {
		if calls++; calls == 1 {
			_ = c.Disconnect() // Own holds no lock
		}
		return fail
	})
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

// A port of the kernel's choice that TCP has in use is given back for another; one of
// the caller's is not, and tries have an end.
func TestListenTriesAnotherPort(t *testing.T) {
	for _, c := range []struct {
		address      string
		taken, tries int
	}{
		{"10.0.0.1:0", 0, 1}, {"10.0.0.1:0", 3, 4}, {":0", 3, 5}, {"10.0.0.1:0", portTries, portTries}, {"10.0.0.1:7471", 1, 1},
	} {
		k := newFake()
		useFake(t, k)
		taken := c.taken
		k.onCall = func(cmd uint32, _ []byte) {
			if cmd != abi.RDMA_USER_CM_CMD_LISTEN {
				return
			}
			if taken == 0 {
				k.fail(cmd, 0)
			}
			taken--
		}
		if c.taken > 0 {
			k.fail(abi.RDMA_USER_CM_CMD_LISTEN, syscall.EADDRINUSE)
		}
		l, err := Listen(t.Context(), c.address)
		if failed := c.taken == c.tries; errors.Is(err, syscall.EADDRINUSE) != failed || (err != nil) != failed {
			t.Errorf("%+v: %v", c, err)
		}
		if n := k.count(abi.RDMA_USER_CM_CMD_LISTEN); n != c.tries {
			t.Errorf("%+v: %d tries", c, n)
		}
		if l != nil {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if made, gone := k.count(abi.RDMA_USER_CM_CMD_CREATE_ID), k.count(abi.RDMA_USER_CM_CMD_DESTROY_ID); made != gone {
			t.Errorf("%+v: %d IDs made, %d destroyed", c, made, gone)
		}
	}
}

// TestPeerGaveUp checks that an answer to a peer that has given up matches ErrDisconnected. On RoCE
// the kernel's errno is EINVAL.
func TestPeerGaveUp(t *testing.T) {
	k := newFake()
	l := mustListen(t, k, "10.0.0.1:1", &ListenConfig{})
	k.fail(abi.RDMA_USER_CM_CMD_REJECT, syscall.EINVAL)
	sendRequest(k, 1, 50)
	r, err := l.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Reject(nil); !errors.Is(err, ErrDisconnected) || !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	<-k.closed
}
