//go:build vm

package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/test/kit"
)

// TestRsocketCloseSlow checks that over a slow network, Close loses nothing that was written, though the peer answers
// while it reads.
func TestRsocketCloseSlow(t *testing.T) {
	kit.Only612(t)
	kit.Fabric(t)
	kit.NoLeak(t)
	t.Cleanup(func() { kit.Sh(t, "tc qdisc del dev lo root") })
	kit.Sh(t, "tc qdisc add dev lo root netem limit 100000 delay 1ms rate 40mbit")
	const size = 1 << 19
	for range 3 {
		l := kit.Must(rsocketListen(kit.DummyIPv4, "0"))(t)
		sent := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				if _, err = c.Write(make([]byte, size)); err == nil {
					err = c.Close()
				}
			}
			sent <- err
		}()
		d := rsocket.Dialer{Timeout: kit.Patience}
		c := kit.Must(d.Dial(t.Context(), l.Addr().String()))(t)
		kit.OK(t, c.SetDeadline(time.Now().Add(kit.Patience)))
		got, err := io.Copy(io.Discard, struct{ io.Reader }{c})
		if got != size || err != nil {
			t.Errorf("%d bytes of %d arrived: %v", got, size, err)
		}
		kit.OK(t, <-sent)
		kit.OK(t, c.Close())
		kit.OK(t, l.Close())
	}
}

// rsocketHosts are the addresses that byte streams are tested on: both transports, both
// families.
func rsocketHosts(t *testing.T) []string {
	t.Helper()
	kit.RxeFabric(t)
	hosts := []string{kit.RxeIPv4, kit.RxeIPv6}
	if kit.HasSiw {
		kit.Fabric(t)
		hosts = append(hosts, kit.DummyIPv4, kit.DummyIPv6)
	}
	return hosts
}

// eachRsocketHost runs a test on each address, and checks for leaks.
func eachRsocketHost(t *testing.T, test func(t *testing.T, host string)) {
	eachHost(t, rsocketHosts(t), test)
}

func eachHost(t *testing.T, hosts []string, test func(t *testing.T, host string)) {
	for _, host := range hosts {
		t.Run(host, func(t *testing.T) {
			kit.NoLeak(t)
			test(t, host)
		})
	}
}

// streams makes both ends of a connection of byte streams.
func streams(host string) (dialled, accepted net.Conn, stop func(), err error) {
	l, err := rsocket.Listen(context.Background(), kit.HostPort(host, "0"))
	if err != nil {
		return nil, nil, nil, err
	}
	d := rsocket.Dialer{Timeout: kit.Patience}
	return ends(l, func() (net.Conn, error) { return d.Dial(context.Background(), l.Addr().String()) })
}

// ends makes both ends of a connection, and closes the listener.
func ends(l net.Listener, dial func() (net.Conn, error)) (dialled, accepted net.Conn, stop func(), err error) {
	defer l.Close()
	failed := make(chan error, 1)
	go func() {
		var err error
		accepted, err = l.Accept()
		failed <- err
	}()
	if dialled, err = dial(); err != nil {
		return nil, nil, nil, err
	}
	if err := <-failed; err != nil {
		dialled.Close()
		return nil, nil, nil, err
	}
	return dialled, accepted, func() { dialled.Close(); accepted.Close() }, nil
}

// TestRsocketConn checks that byte streams are net.Conns, from both ends.
func TestRsocketConn(t *testing.T) {
	kit.Only612(t)
	eachRsocketHost(t, func(t *testing.T, host string) {
		nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) { return streams(host) })
	})
}

// TestRsocketOverTCP checks the same over queue pairs that were connected over TCP. siw has no counterpart: only the
// connection manager connects its queue pairs.
func TestRsocketOverTCP(t *testing.T) {
	kit.Only612(t)
	d := kit.OpenRxe(t)
	kit.NoLeak(t)
	over := &oob.Config{PD: d.PD}
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, nil, err
		}
		l, err := new(rsocket.ListenConfig).ListenOver(tcp, over)
		if err != nil {
			return nil, nil, nil, err
		}
		return ends(l, func() (net.Conn, error) {
			stream, err := net.Dial("tcp", tcp.Addr().String())
			if err != nil {
				return nil, err
			}
			return (&rsocket.Dialer{Timeout: kit.Patience}).DialOver(t.Context(), stream, over)
		})
	})
}

// TestRsocketAddresses checks that addresses look as programs expect of an address and a port.
func TestRsocketAddresses(t *testing.T) {
	eachRsocketHost(t, func(t *testing.T, host string) {
		a, b, stop, err := streams(host)
		kit.OK(t, err)
		defer stop()
		for _, addrs := range [][2]net.Addr{{a.LocalAddr(), b.RemoteAddr()}, {a.RemoteAddr(), b.LocalAddr()}} {
			here, there := addrs[0].(rsocket.Addr), addrs[1].(rsocket.Addr)
			if here != there || here.Network() != "rsocket" || here.String() != kit.HostPort(host, fmt.Sprint(here.AddrPort().Port())) {
				t.Errorf("%v and %v", here, there)
			}
		}
	})
}

// TestRsocketKeepAlive checks that the peer's machine answers the probes of an idle connection, which stays open.
func TestRsocketKeepAlive(t *testing.T) {
	kit.Only612(t)
	eachRsocketHost(t, func(t *testing.T, host string) {
		lc := rsocket.ListenConfig{Config: rsocket.Config{MaxIdleTimeout: 4 * time.Second}}
		l := kit.Must(lc.Listen(t.Context(), kit.HostPort(host, "0")))(t)
		defer l.Close()
		go func() {
			c, err := l.Accept()
			if err == nil {
				_, err = io.Copy(c, c)
				c.Close()
			}
			if err != nil {
				t.Error(err)
			}
		}()
		d := rsocket.Dialer{Config: rsocket.Config{MaxIdleTimeout: 4 * time.Second}, Timeout: kit.Patience}
		c := kit.Must(d.Dial(t.Context(), l.Addr().String()))(t)
		defer c.Close()
		sent, got := make([]byte, 100), make([]byte, 100)
		for i := range 3 {
			// Both ends probe at whole seconds. siw ends a connection whose peer sends while a probe arrives:
			// docs/kernel-bugs.md.
			kit.OK(t, c.SetDeadline(time.Now().Add(4600*time.Millisecond)))
			if n, err := c.Read(got); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("round %d: %d, %v", i, n, err)
			}
			kit.OK(t, c.SetDeadline(time.Now().Add(kit.Patience)))
			sent[0] = byte(i)
			kit.Must(c.Write(sent))(t)
			kit.Must(io.ReadFull(c, got))(t)
			if got[0] != byte(i) {
				t.Fatalf("round %d: %d", i, got[0])
			}
		}
	})
}

// TestRsocketMany checks that 1,000 connections at a time echo, which are more descriptors than the 1,024 that some
// programs bear. An idle one has no goroutine, and one descriptor at each end.
func TestRsocketMany(t *testing.T) {
	kit.Only612(t)
	const n = 1000
	small := rsocket.Config{SendBuffer: 4096, RecvBuffer: 4096, SendQueue: 16, RecvQueue: 16}
	kit.RxeFabric(t)
	kit.NoLeak(t)
	lc := rsocket.ListenConfig{Config: small}
	l := kit.Must(lc.Listen(t.Context(), kit.HostPort(kit.RxeIPv4, "0")))(t)
	defer l.Close()
	accepted := make(chan net.Conn, n)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	d := rsocket.Dialer{Config: small, Timeout: kit.Patience}
	var dialled, served []net.Conn
	connect := func() {
		dialled = append(dialled, kit.Must(d.Dial(t.Context(), l.Addr().String()))(t))
		c, ok := <-accepted
		if !ok {
			t.Fatal("the listener has ended")
		}
		served = append(served, c)
	}
	defer func() {
		for _, c := range slices.Concat(dialled, served) {
			kit.OK(t, c.Close())
		}
	}()
	connect() // what all connections share
	goroutines, descriptors := runtime.NumGoroutine(), kit.Descriptors(t)
	for len(dialled) <= n {
		connect()
	}
	// A few goroutines may still be ending.
	if more := runtime.NumGoroutine() - goroutines; more > n/10 {
		t.Errorf("%d goroutines more for %d connections", more, n)
	}
	if more := kit.Descriptors(t) - descriptors; more > 2*n+n/10 {
		t.Errorf("%d descriptors more for %d connections", more, n)
	}
	var all sync.WaitGroup
	for i := range dialled {
		all.Go(func() {
			b := make([]byte, 64)
			if _, err := io.ReadFull(served[i], b); err != nil {
				t.Error(err)
			}
			if _, err := served[i].Write(b); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			sent, got := bytes.Repeat([]byte{byte(i)}, 64), make([]byte, 64)
			if _, err := dialled[i].Write(sent); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(dialled[i], got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("connection %d: %v, %x", i, err, got)
			}
		})
	}
	all.Wait()
}
