package rsocket

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestStrangers checks that a peer that does not speak rsocket is refused while it connects, and
// Accept goes on to the next.
func TestStrangers(t *testing.T) {
	newFabric(t, rdmatest.RXE)
	l, err := Listen(t.Context(), fabricHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := acceptAndClose(l)
	for _, private := range [][]byte{nil, []byte("hello"), make([]byte, helloSize)} {
		var rejected *rdmacm.RejectedError
		_, err := (&rdmacm.Dialer{Config: rdmacm.Config{PrivateData: private}}).Dial(t.Context(), l.Addr().String())
		if !errors.As(err, &rejected) || rejected.Reason != rdmacm.RejectOtherProtocol {
			t.Errorf("%q: %v", private, err)
		}
	}
	c, err := Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-accepted, c.Close()); err != nil {
		t.Error(err)
	}
}

// TestDialStranger checks that a dialled peer that does not speak rsocket is refused.
func TestDialStranger(t *testing.T) {
	newFabric(t, rdmatest.SIW)
	l, err := (&rdmacm.ListenConfig{Config: rdmacm.Config{PrivateData: []byte("some other protocol")}}).Listen(t.Context(), fabricHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept(t.Context())
		if err == nil {
			err = c.Close()
		}
		accepted <- err
	}()
	_, err = Dial(t.Context(), l.Addr().String())
	var op *net.OpError
	if !errors.Is(err, ErrProtocol) || !errors.As(err, &op) || op.Op != "dial" || op.Addr.String() != l.Addr().String() {
		t.Error(err)
	}
	if err := <-accepted; err != nil {
		t.Error(err)
	}
}

// TestDialErrors checks that invalid options and addresses are errors that name the reason, as in
// package net.
func TestDialErrors(t *testing.T) {
	newFabric(t, rdmatest.RXE)
	for _, test := range []struct {
		d                Dialer
		network, address string
		want             error
		text             string
	}{
		{Dialer{}, "udp", fabricHost + ":1", net.UnknownNetworkError("udp"), "udp"},
		{Dialer{}, "rsocket5", fabricHost + ":1", net.UnknownNetworkError("rsocket5"), "rsocket5"},
		{Dialer{}, "tcp", fabricHost + ":1", syscall.ECONNREFUSED, "no listener"},
		{Dialer{Config: Config{SendQueue: 15}}, "tcp", fabricHost + ":1", syscall.EINVAL, "Config.SendQueue is 15, want 16 to 65534"},
		{Dialer{Config: Config{RecvBuffer: 5001}}, "tcp", fabricHost + ":1", syscall.EINVAL, "Config.RecvBuffer is 5001, want an even"},
		{Dialer{Config: Config{SendBuffer: -1}}, "tcp", fabricHost + ":1", syscall.EINVAL, "Config.SendBuffer is -1, want 4096 to"},
		{Dialer{Config: Config{Mappings: 129}}, "tcp", fabricHost + ":1", syscall.EINVAL, "Config.Mappings is 129, want 0 to 128"},
		{Dialer{Timeout: -1}, "tcp", fabricHost + ":1", syscall.EINVAL, "Timeout"},
		{Dialer{FallbackDelay: -1}, "tcp", fabricHost + ":1", syscall.EINVAL, "FallbackDelay"},
		{Dialer{LocalAddr: netip.MustParseAddrPort("[::1]:5")}, "tcp6", fabricHost + ":1", nil, ""},
	} {
		_, err := test.d.DialContext(t.Context(), test.network, test.address)
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "dial" || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s %s: %v", test.network, test.address, err)
		}
	}
	for _, lc := range []ListenConfig{{Config: Config{SendQueue: 15}}, {Backlog: -1}} {
		var op *net.OpError
		if _, err := lc.Listen(t.Context(), fabricHost+":0"); !errors.As(err, &op) || op.Op != "listen" || !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		}
	}
}

// acceptAndClose lets one peer in.
func acceptAndClose(l net.Listener) <-chan error {
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.Close()
		}
		accepted <- err
	}()
	return accepted
}

// TestDialFamilies checks that an address that fails is no hindrance to one of the other family, and
// the error names both.
func TestDialFamilies(t *testing.T) {
	newFabric(t, rdmatest.RXE)
	l, err := Listen(t.Context(), fabricHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := acceptAndClose(l)
	var z Config
	cfg, _ := z.withDefaults()
	there := l.Addr().(Addr).AddrPort()
	nowhere, noOne := netip.MustParseAddrPort("[2001:db8::1]:1"), netip.AddrPortFrom(there.Addr(), 1)
	dial := func(addrs ...netip.AddrPort) (*Conn, error) {
		d := netconn.Dial[*Conn]{Network: protocol, One: func(ctx context.Context, addr netip.AddrPort) (*Conn, error) {
			return new(Dialer).dialAddr(ctx, addr, &cfg)
		}}
		return d.Soonest(t.Context(), addrs)
	}
	c, err := dial(nowhere, noOne, there)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.RemoteAddr().(Addr).AddrPort(); got != there {
		t.Error(got)
	}
	if err := errors.Join(<-accepted, c.Close()); err != nil {
		t.Error(err)
	}
	c, err = dial(nowhere, noOne)
	var op *net.OpError
	if c != nil || !errors.As(err, &op) || op.Op != "dial" || !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), nowhere.String()) {
		t.Errorf("%v, %v", c, err)
	}
}

// TestAcceptEnds checks that Close ends Accept.
func TestAcceptEnds(t *testing.T) {
	newFabric(t, rdmatest.RXE)
	l, err := Listen(t.Context(), fabricHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
