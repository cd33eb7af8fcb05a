//go:build vm

package tool

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

// TestSandbox: C's programs see devices in software on this kernel too, without any privilege. What
// else the sandbox does, package sandbox tests on the machine itself.
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
