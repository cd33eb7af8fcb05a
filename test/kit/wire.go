//go:build vm

package kit

import (
	"fmt"
	"testing"
)

// The wire is two rxe links on the two ends of a veth pair. A packet from rxe to its own
// network device never leaves the kernel's rxe. These packets cross a queue in each direction, in
// which they can be lost. Both ends are in one network namespace, the only one that rxe supports
// before Linux 7.1 or so. There the other end's address would be routed over lo, so rules look at
// other routes first.
const (
	WireNear = "10.85.0.1"
	WireFar  = "10.85.0.2"
)

// RxeWire adds the links and opens their devices until the test ends.
func RxeWire(t *testing.T) (near, far *RxeDevice) {
	t.Helper()
	Sh(t, `set -e
		ip link add gvnear address 02:00:00:85:00:01 type veth peer name gvaway address 02:00:00:85:00:02
		for dev in gvnear gvaway; do
			echo 1 > /proc/sys/net/ipv4/conf/$dev/accept_local
			echo 0 > /proc/sys/net/ipv4/conf/$dev/rp_filter
			ip link set $dev up
		done
		ip -batch - <<-END
			addr add 10.85.0.1/32 dev gvnear
			addr add 10.85.0.2/32 dev gvaway
			route add 10.85.0.2 dev gvnear src 10.85.0.1 table 85
			route add 10.85.0.1 dev gvaway src 10.85.0.2 table 85
			neigh add 10.85.0.2 dev gvnear nud permanent lladdr 02:00:00:85:00:02
			neigh add 10.85.0.1 dev gvaway nud permanent lladdr 02:00:00:85:00:01
			rule add pref 85 oif gvnear to 10.85.0.2 lookup 85
			rule add pref 85 oif gvaway to 10.85.0.1 lookup 85
			rule add pref 99 lookup local
			rule del pref 0
		END
		../../bin/rdmalink add gvrxen type rxe netdev gvnear
		../../bin/rdmalink add gvrxef type rxe netdev gvaway`)
	t.Cleanup(func() {
		Sh(t, `set -e
			../../bin/rdmalink del gvrxen
			../../bin/rdmalink del gvrxef
			ip rule add pref 0 lookup local
			ip rule del pref 99
			ip rule del pref 85
			ip rule del pref 85
			ip link del gvnear`)
	})
	NoLeak(t)
	return OpenRxeLink(t, "gvrxen", WireNear), OpenRxeLink(t, "gvrxef", WireFar)
}

// Lose sets the percentage of packets that a link loses. The others take a millisecond, and two
// percent of them overtake. A queue that is full would be an error to
// rxe since Linux 6.2, not a loss.
func Lose(t *testing.T, dev string, percent int) {
	t.Helper()
	queue := "netem limit 100000 delay 1ms"
	if percent > 0 {
		queue += fmt.Sprintf(" reorder 2%% loss %d%%", percent)
	}
	Sh(t, fmt.Sprintf("tc qdisc del dev %s root 2>&-; tc qdisc add dev %[1]s root %s", dev, queue))
}
