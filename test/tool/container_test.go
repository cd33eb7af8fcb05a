//go:build vm

package tool

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

// TestContainer checks that a container needs only a static program and two device nodes.
func TestContainer(t *testing.T) {
	kit.Only612(t)
	kit.Fabric(t)
	j := kit.NewChroot(t)
	j.Give("/dev/infiniband/rdma_cm")
	j.Give(kit.InfoOf(t, kit.DummyLink).Node)
	for name, credential := range map[string]*syscall.Credential{"root": nil, "nobody": {Uid: 65534, Gid: 65534}} {
		t.Run(name, func(t *testing.T) {
			kit.NoLeak(t)
			command := func(name string, args ...string) *exec.Cmd {
				cmd := j.Command(name, args...)
				cmd.SysProcAttr.Credential = credential
				return cmd
			}
			for _, host := range []string{kit.DummyIPv4, kit.DummyIPv6} {
				server := kit.Start(t, command("/exchange", "-s", kit.HostPort(host, "7471")))
				server.Line(t)
				kit.Start(t, command("/exchange", "-c", kit.HostPort(host, "7471"), "-size", "100000")).Finish(t)
				server.Finish(t)
				rpings := serveRping(t, command("/rdmalink", "rping", "-s", "-a", host, "-C", "10"))
				kit.Pinged(t, rpings, kit.Launch(t, command("/rdmalink", "rping", "-c", "-a", host, "-C", "10", "-V")))
			}
			want := kit.Output{Out: "link gvsiw0/1 state ACTIVE physical_state LINK_UP netdev gvdummy \n"}
			if got := kit.RunCommand(t, command("/rdmalink", "show", kit.DummyLink)); got != want {
				t.Errorf("%+v", got)
			}
		})
	}
}
