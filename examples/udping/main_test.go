package main

import (
	"net/netip"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// TestPing asks a server on another host.
func TestPing(t *testing.T) {
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Endless: true})
	address := netip.AddrPortFrom(netip.MustParseAddr(fabric.Host(1).Addr()), 7471)
	go func() { t.Error(serve(address, 0)) }()
	err := ping(address, 3)
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); time.Sleep(time.Millisecond) { // until it listens
		err = ping(address, 3)
	}
	if err != nil {
		t.Error(err)
	}
}
