//go:build vm

package tool

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

// TestSandbox checks that C's programs see devices in software on this kernel too, without any privilege. What else the
// sandbox does, package sandbox tests on the machine itself.
func TestSandbox(t *testing.T) {
	kit.NoLeak(t)
	const pong, ping = " iters in ", "ping data: rdma-ping-2: CDEF"
	pingpong := bothEnds("ibv_rc_pingpong -g 1 -e -n 20 -c -p 18599", "ibv_rc_pingpong -g 1 -e -n 20 -c -p 18599 localhost")
	rping := bothEnds("rping -s -C 3 -a 198.51.100.1", "rping -c -v -C 3 -a 198.51.100.1")
	for _, c := range kit.FewElsewhere([]struct{ options, command, want string }{
		{"-d rxe", "ibv_devinfo", "hca_id:\trxe0"},
		{"-d mlx5 --trap", pingpong, pong},
		{"-d siw", rping, ping},
		{"-d siw", "ibv_devinfo", "hca_id:\tsiw0"},
		{"-d erdma", "ibv_devinfo", "hca_id:\terdma0"},
		{"-d mlx5", "ibv_devinfo", "hca_id:\tmlx5_0"},
		{"-d rxe", pingpong, pong},
		{"-d mlx5", pingpong, pong},
		{"-d erdma --trap", rping, ping},
	}, 3) {
		t.Run(c.options+c.want, func(t *testing.T) {
			if kit.OnUML() && strings.HasSuffix(c.options, "--trap") {
				t.Skip("a store that is trapped ends the program on User Mode Linux")
			}
			words := append(strings.Fields("sandbox "+c.options), "--", "sh", "-c", c.command)
			got := kit.RunCommand(t, kit.Nobody(exec.Command(kit.RdmalinkPath(t), words...)))
			if got.Code != 0 || !strings.Contains(got.Out, c.want) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// bothEnds has a client try until there is a server, as long as there may be one.
func bothEnds(server, client string) string {
	return fmt.Sprintf("(%s || kill $$) & until %s; do kill -0 $! || exit 1; done; wait $!", server, client)
}

// besideRxe is a script that runs a server and a client, one on Linux's rxe and one in a sandbox, in two network
// namespaces with an Ethernet cable between. rxe has the address 192.0.2.1, and the sandbox 192.0.2.2.
const besideRxe = `
unshare -n sleep 1200 & other=$!
trap 'kill $other; rdma link del gvwire; ip link del gvveth0' EXIT
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do kill -0 $other || exit 1; done
there="nsenter -t $other -n"
ip link add gvveth0 type veth peer name gvveth1 netns $other &&
ip addr add 192.0.2.1/24 dev gvveth0 && $there ip addr add 192.0.2.2/24 dev gvveth1 &&
ip link set gvveth0 up && $there ip link set gvveth1 up && rdma link add gvwire type rxe netdev gvveth0 || exit 1
sandbox() { $there $RDMALINK sandbox $OPTIONS --wire 192.0.2.2 -- "$@"; }
rxe() { "$@" -d gvwire; }
again() { while kill -0 $server; do "$@" || return; done; }
$SERVER & server=$!
until $CLIENT; do kill -0 $server || exit 1; done
wait $server
`

// TestSandboxWire checks that programs in a sandbox reach programs on Linux's rxe, in both directions. They compare the
// data.
func TestSandboxWire(t *testing.T) {
	if kit.OnUML() {
		t.Skip("the sandbox is tested on QEMU")
	}
	kit.NoLeak(t)
	const pong, ping, complete, equal = " iters in ", "ping data: rdma-ping-2", "data transfers complete", "all data is equal"
	const receiving = "receiving data transfers" // of a group
	const onesided = kit.CMTestBin + " onesided"
	for _, c := range kit.FewElsewhere([]struct {
		options, server, client, want string
		times                         int
	}{
		{"-d rxe", "sandbox ibv_rc_pingpong -g 1 -e -c -n 5", "rxe ibv_rc_pingpong -g 1 -e -c -n 5 192.0.2.2", pong, 2},
		{"-d mlx5", "rxe ibv_rc_pingpong -g 1 -e -c -n 5", "sandbox ibv_rc_pingpong -g 1 -e -c -n 5 192.0.2.1", pong, 2},
		{"-d rxe", "rxe ibv_ud_pingpong -g 1 -e -n 5", "sandbox ibv_ud_pingpong -g 1 -e -n 5 192.0.2.1", pong, 2},
		{"-d rxe", "sandbox rping -s -C 3 -a 192.0.2.2", "rping -c -v -V -C 3 -a 192.0.2.2", ping, 1},
		{"-d mlx5", "rping -s -C 3 -a 192.0.2.1", "sandbox rping -c -v -V -C 3 -a 192.0.2.1", ping, 1},
		{"-d mlx5", "sandbox udaddy -b 192.0.2.2", "udaddy -s 192.0.2.2", complete, 2},
		{"-d rxe", "udaddy -b 192.0.2.1", "sandbox udaddy -s 192.0.2.1", complete, 2},
		{"-d rxe", "sandbox mckey -C 4 -m 239.83.1.9 -b 192.0.2.2", "again mckey -s -C 4 -m 239.83.1.9 -b 192.0.2.1", receiving, 1},
		{"-d mlx5", "mckey -C 4 -m 239.83.1.9 -b 192.0.2.1", "again sandbox mckey -s -C 4 -m 239.83.1.9 -b 192.0.2.2", receiving, 1},
		// WRITE, READ and atomic operations of either end
		{"-d rxe", "sandbox " + onesided, "rxe " + onesided + " -s 192.0.2.2", equal, 2},
		{"-d mlx5", "rxe " + onesided, "sandbox " + onesided + " -s 192.0.2.1", equal, 2},
	}, 1) {
		t.Run(c.options+" "+strings.ReplaceAll(c.server, kit.CMTestBin, "cmtest"), func(t *testing.T) {
			cmd := exec.Command("sh", "-c", besideRxe)
			cmd.Env = append(os.Environ(), "RDMALINK="+kit.RdmalinkPath(t), "OPTIONS="+c.options, "SERVER="+c.server, "CLIENT="+c.client)
			if got := kit.RunCommand(t, cmd); got.Code != 0 || strings.Count(got.Out, c.want) != c.times {
				t.Errorf("%+v", got)
			}
		})
	}
}
