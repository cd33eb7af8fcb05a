//go:build vm

package test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
)

// TestCMRxeOptions: what Config says of packets is in the queue pair.
func TestCMRxeOptions(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	l := must(rdmacm.Listen(rxeIPv4 + ":0"))(t)
	served := acceptOne(t, l)
	c := must((&rdmacm.Dialer{TOS: 0x20, AckTimeout: time.Second}).Dial(t.Context(), l.Addr().String()))(t)
	if attr := must(c.QP().Query())(t); attr.Timeout != 18 || attr.AH.TrafficClass != 0x20 {
		t.Errorf("acknowledgement time-out %d, traffic class %#x", attr.Timeout, attr.AH.TrafficClass)
	}
	ok(t, c.Close())
	<-served
	ok(t, l.Close())
}

// TestCMRxeAckTimeouts: the acknowledgement time-outs that the kernel gives to both sides, of a
// dialling side that sets none, or one. TestAckTimeouts of rdmatest has the same table.
func TestCMRxeAckTimeouts(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	l := must(rdmacm.Listen(rxeIPv4 + ":0"))(t)
	path := uint8(17) // a path's life time is 2^16 × 4.096 µs
	if onKernel("6.1") {
		path = 19
	}
	for _, c := range []struct {
		set               time.Duration
		dialled, accepted uint8
	}{{0, path, path}, {100 * time.Millisecond, 15, 16}, {8 * time.Second, 21, 21}} {
		accepted := make(chan *rdmacm.Conn, 1)
		go func() { accepted <- must(l.Accept(context.Background()))(t) }()
		dialled := must((&rdmacm.Dialer{AckTimeout: c.set}).Dial(t.Context(), l.Addr().String()))(t)
		for conn, want := range map[*rdmacm.Conn]uint8{dialled: c.dialled, <-accepted: c.accepted} {
			if a := must(conn.QP().Query())(t); a.Timeout != want || a.RetryCnt != 7 {
				t.Errorf("%v: %d, %d retries, want %d", c.set, a.Timeout, a.RetryCnt, want)
			}
			ok(t, conn.Close())
		}
	}
	ok(t, l.Close())
}

// acceptOne has one connection accepted, and closed after the peer.
func acceptOne(t *testing.T, l *rdmacm.Listener) <-chan struct{} {
	served := make(chan struct{})
	go func() {
		defer close(served)
		c, err := l.Accept(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		<-c.Done()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	return served
}

// TestCMRxeNames: of a name with addresses of both families, where a program listens on
// one only, Dial finds that one, whichever comes first.
func TestCMRxeNames(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	hosts, err := os.ReadFile("/etc/hosts")
	ok(t, err)
	t.Cleanup(func() { ok(t, os.WriteFile("/etc/hosts", hosts, 0o644)) })
	ok(t, os.WriteFile("/etc/hosts", append(hosts, "\n"+rxeIPv6+" both\n"+rxeIPv4+" both\n"...), 0o644))
	resolver := &net.Resolver{PreferGo: true}
	if ips, err := resolver.LookupNetIP(context.Background(), "ip", "both"); err != nil || len(ips) != 2 {
		t.Fatal(ips, err)
	}
	for _, host := range []string{rxeIPv4, rxeIPv6} {
		l := must(rdmacm.Listen(hostPort(host, "0")))(t)
		served := acceptOne(t, l)
		_, port, err := net.SplitHostPort(l.Addr().String())
		ok(t, err)
		c := must((&rdmacm.Dialer{Resolver: resolver}).Dial(t.Context(), "both:"+port))(t)
		if got := c.RemoteAddr().Addr(); got != netip.MustParseAddr(host) {
			t.Errorf("connected to %v, want %s", got, host)
		}
		ok(t, c.Close())
		<-served
		ok(t, l.Close())
	}
}
