//go:build vm

package test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Over lo a link works if lo has a MAC and an address outside 127/8; Dial finds
// that address by itself.
func TestCMLoopback(t *testing.T) {
	needSiw(t)
	sh(t, `ip link set lo address 02:00:00:00:00:01
		ip addr add 10.9.9.9/32 dev lo
		ip addr add fd09::9/128 dev lo nodad
		rdma link add cmlo type siw netdev lo`)
	t.Cleanup(func() {
		sh(t, `rdma link del cmlo
			ip addr del 10.9.9.9/32 dev lo
			ip addr del fd09::9/128 dev lo`)
	})
	cmLoopbackPings(t, ":0", "10.9.9.9", "127.0.0.1", "[fd09::9]", "[::1]", "localhost", "")
	if len(siwLinks(t)) == 1 {
		cmLoopbackPings(t, "127.0.0.1:0", "127.0.0.1")
	}
	// The kernel listens with each device, and TCP has the address for one.
	cmLink(t, "siw")
	l, err := rdmacm.Listen("127.0.0.1:0")
	if err == nil {
		ok(t, l.Close())
	}
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "several iWARP devices") {
		t.Error(err)
	}
}

// siwLinks are all devices of soft iWARP, also those of other tests.
func siwLinks(t *testing.T) (names []string) {
	t.Helper()
	for _, info := range must(uverbs.Devices())(t) {
		if info.Driver == verbs.DriverSIW {
			names = append(names, info.Name)
		}
	}
	return names
}

func cmLoopbackPings(t *testing.T, address string, hosts ...string) {
	l, err := rdmacm.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	served := cmEcho(t, l)
	for _, host := range hosts {
		addr := fmt.Sprintf("%s:%d", host, l.Addr().Port())
		if err := cmPing(t.Context(), addr, "hello"); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	served.Wait()
}
