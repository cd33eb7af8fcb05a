//go:build vm

package test

import (
	"fmt"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
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
	cmLoopbackPings(t, "127.0.0.1:0", "127.0.0.1")
}

func cmLoopbackPings(t *testing.T, address string, hosts ...string) {
	l, err := rdmacm.Listen(address, nil)
	if err != nil { // seen once, in a shuffled run: all ports that were tried were in use
		t.Fatalf("%v\nTCP's sockets, and the ports to choose from:\n%s", err, sh(t, "ss -tan; cat /proc/sys/net/ipv4/ip_local_port_range; free -m"))
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
