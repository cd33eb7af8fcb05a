//go:build vm

package test

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/goverbs/goverbs/rsocket"
)

// rsocketHosts are the addresses that byte streams are tested on: both transports, both
// families.
func rsocketHosts(t *testing.T) []string {
	t.Helper()
	rxeFabric(t)
	hosts := []string{rxeIPv4, rxeIPv6}
	if hasSiw {
		fabric(t)
		hosts = append(hosts, dummyIPv4, dummyIPv6)
	}
	return hosts
}

// eachRsocketHost runs a test on each address, and checks for leaks.
func eachRsocketHost(t *testing.T, test func(t *testing.T, host string)) {
	for _, host := range rsocketHosts(t) {
		t.Run(host, func(t *testing.T) {
			noLeak(t)
			test(t, host)
		})
	}
}

// streams makes both ends of a connection of byte streams.
func streams(host string) (dialled, accepted net.Conn, stop func(), err error) {
	l, err := rsocket.Listen("rsocket", hostPort(host, "0"))
	if err != nil {
		return nil, nil, nil, err
	}
	defer l.Close()
	failed := make(chan error, 1)
	go func() {
		var err error
		accepted, err = l.Accept()
		failed <- err
	}()
	d := rsocket.Dialer{Timeout: patience}
	if dialled, err = d.Dial("rsocket", l.Addr().String()); err != nil {
		return nil, nil, nil, err
	}
	if err := <-failed; err != nil {
		dialled.Close()
		return nil, nil, nil, err
	}
	return dialled, accepted, func() { dialled.Close(); accepted.Close() }, nil
}

// TestRsocketConn: byte streams are net.Conns, from both ends.
func TestRsocketConn(t *testing.T) {
	only612(t)
	eachRsocketHost(t, func(t *testing.T, host string) {
		nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) { return streams(host) })
	})
}

// TestRsocketAddresses: addresses look as programs expect of an address and a port.
func TestRsocketAddresses(t *testing.T) {
	eachRsocketHost(t, func(t *testing.T, host string) {
		a, b, stop, err := streams(host)
		ok(t, err)
		defer stop()
		for _, addrs := range [][2]net.Addr{{a.LocalAddr(), b.RemoteAddr()}, {a.RemoteAddr(), b.LocalAddr()}} {
			here, there := addrs[0].(rsocket.Addr), addrs[1].(rsocket.Addr)
			if here != there || here.Network() != "rsocket" || here.String() != hostPort(host, fmt.Sprint(here.AddrPort().Port())) {
				t.Errorf("%v and %v", here, there)
			}
		}
	})
}

// TestRsocketKeepAlive: keep-alives come between the data and change nothing.
func TestRsocketKeepAlive(t *testing.T) {
	only612(t)
	eachRsocketHost(t, func(t *testing.T, host string) {
		lc := rsocket.ListenConfig{KeepAlive: time.Millisecond}
		l := must(lc.Listen(t.Context(), "rsocket", hostPort(host, "0")))(t)
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
		d := rsocket.Dialer{KeepAlive: time.Millisecond, Timeout: patience}
		c := must(d.Dial("rsocket", l.Addr().String()))(t)
		defer c.Close()
		ok(t, c.SetDeadline(time.Now().Add(2*patience)))
		sent, got := make([]byte, 100), make([]byte, 100)
		for i := range 300 {
			sent[0] = byte(i)
			must(c.Write(sent))(t)
			must(io.ReadFull(c, got))(t)
			if got[0] != byte(i) {
				t.Fatalf("round %d: %d", i, got[0])
			}
		}
	})
}
