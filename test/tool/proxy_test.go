//go:build vm

package tool

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

// TestProxy has C's rstream over rsocket talk to an rstream that knows TCP only, through
// rdmalink proxy, and the other way round; both check the data.
func TestProxy(t *testing.T) {
	kit.Only612(t)
	for _, typ := range []string{"siw", "rxe"} {
		t.Run(typ, func(t *testing.T) {
			kit.CMLink(t, typ)
			at := map[string]string{"rdma": "rdma:10.78.0.1:7471", "tcp": "tcp:127.0.0.1:7500", "tcp front": "tcp:127.0.0.1:7501"}
			rstream := func(line string) *exec.Cmd {
				return exec.Command("rstream", strings.Fields("-T v -S 4096 -C 5 -I 4 "+line)...)
			}
			run := func(t *testing.T, server *kit.Running, listen, connect, port string, client *exec.Cmd) {
				t.Helper()
				p := kit.Launch(t, exec.Command(kit.RdmalinkBin, "proxy", "-v", at[listen], at[connect]))
				p.Listens(func() bool {
					return kit.Listening(p.Process.Pid, 7501) || kit.ListeningCM(t, p.Process.Pid, port)
				})
				c := kit.Launch(t, client)
				if end := c.End(); end.Code != 0 {
					t.Errorf("%+v", end)
				}
				if end := server.End(); end.Code != 0 {
					t.Errorf("%+v", end)
				}
				kit.OK(t, p.Process.Signal(syscall.SIGINT))
				if end := p.End(); end.Code != 0 || end.Err != "" || !strings.Contains(end.Out, " bytes there, ") {
					t.Errorf("%+v", end)
				}
			}
			t.Run("RDMA to TCP", func(t *testing.T) {
				kit.NoLeak(t)
				server := kit.ServePort(t, rstream("-T s -p 7500"), 7500)
				run(t, server, "rdma", "tcp", "7471", rstream("-T b -p 7471 -s 10.78.0.1"))
			})
			t.Run("TCP to RDMA", func(t *testing.T) {
				kit.NoLeak(t)
				server := kit.ServeCM(t, rstream("-T b -p 7471 -b 10.78.0.1"), "7471")
				run(t, server, "tcp front", "rdma", "7501", rstream("-T s -p 7501 -s 127.0.0.1"))
			})
		})
	}
}
