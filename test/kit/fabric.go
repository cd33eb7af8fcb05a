//go:build vm

package kit

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The fabric is what most tests run on: siw on a dummy interface, and on both
// ends of a veth pair whose other end is in a network namespace. The first test
// that needs it makes it; making it costs more than most tests. siw fits its
// packets to the MTU: over veth they are large on IPv4, which would take its time
// otherwise, and small on IPv6. Listening on all addresses, siw binds to each
// device's interface by number, whatever its namespace; an interface that was
// created here and moved keeps a unique number.
const (
	DummyLink = "gvsiw0"
	DummyIPv4 = "10.81.0.1"
	DummyIPv6 = "fd81::1"
	VethIPv4  = "10.82.0.1" // here
	FarIPv4   = "10.82.0.2" // in FarSpace
	FarIPv6   = "fd82::2"
	FarSpace  = "gvfar"
)

// hasDevice reports whether a link exists. The tests of an earlier binary may have left it.
func hasDevice(link string) bool {
	_, err := os.Stat("/sys/class/infiniband/" + link)
	return err == nil
}

// Fabric creates the fabric of siw if it does not exist.
func Fabric(t *testing.T) {
	t.Helper()
	NeedSiw(t)
	if hasDevice(DummyLink) {
		return
	}
	Sh(t, `set -e
		ip netns add gvfar
		ip -batch - <<-END
			link add gvdummy type dummy
			addr add 10.81.0.1/24 dev gvdummy
			addr add fd81::1/64 dev gvdummy nodad
			link set gvdummy up
			link add gvhere mtu 65535 type veth peer name gvthere mtu 65535
			link set gvthere netns gvfar
			addr add 10.82.0.1/24 dev gvhere
			addr add fd82::1/64 dev gvhere nodad
			link set gvhere up
			route replace fd82::/64 dev gvhere mtu 1500
		END
		ip -n gvfar -batch - <<-END
			addr add 10.82.0.2/24 dev gvthere
			addr add fd82::2/64 dev gvthere nodad
			link set gvthere up
			route replace fd82::/64 dev gvthere mtu 1500
		END
		../../bin/rdmalink add gvsiw0 type siw netdev gvdummy
		../../bin/rdmalink add gvsiw1 type siw netdev gvhere
		ip netns exec gvfar ../../bin/rdmalink add gvsiw2 type siw netdev gvthere`)
}

// NoFabric removes the fabric, for a test that unloads modules.
func NoFabric(t *testing.T) {
	t.Helper()
	NoRxeFabric(t)
	if hasDevice(DummyLink) {
		Sh(t, `for link in gvsiw0 gvsiw1 gvsiw2; do ../../bin/rdmalink del $link || exit; done
			ip link del gvdummy && ip link del gvhere && ip netns del gvfar`)
	}
}

// InFarSpace returns a command that runs in the other network namespace.
func InFarSpace(cmd *exec.Cmd) *exec.Cmd {
	far := exec.Command("ip", append([]string{"netns", "exec", FarSpace}, cmd.Args...)...)
	far.Env = cmd.Env
	return far
}

// HostPort joins an address of the fabric and a port.
func HostPort(host, port string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]:" + port
	}
	return host + ":" + port
}
