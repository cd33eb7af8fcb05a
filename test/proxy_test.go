//go:build vm

package test

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestProxy has C's rstream over rsocket talk to an rstream that knows TCP only, through
// rdmalink proxy, and the other way round; both check the data.
func TestProxy(t *testing.T) {
	only612(t)
	for _, typ := range []string{"siw", "rxe"} {
		t.Run(typ, func(t *testing.T) {
			cmLink(t, typ)
			at := map[string]string{"rdma": "rdma:10.78.0.1:7471", "tcp": "tcp:127.0.0.1:7500", "tcp front": "tcp:127.0.0.1:7501"}
			rstream := func(line string) *exec.Cmd {
				return exec.Command("rstream", strings.Fields("-T v -S 4096 -C 5 -I 4 "+line)...)
			}
			run := func(t *testing.T, server *running, listen, connect, port string, client *exec.Cmd) {
				t.Helper()
				p := launch(t, exec.Command(rdmalinkBin, "proxy", "-v", at[listen], at[connect]))
				p.listens(func() bool {
					return listening(p.Process.Pid, 7501) || listeningCM(t, p.Process.Pid, port)
				})
				c := launch(t, client)
				if end := c.end(); end.Code != 0 {
					t.Errorf("%+v", end)
				}
				if end := server.end(); end.Code != 0 {
					t.Errorf("%+v", end)
				}
				ok(t, p.Process.Signal(syscall.SIGINT))
				if end := p.end(); end.Code != 0 || end.Err != "" || !strings.Contains(end.Out, " bytes there, ") {
					t.Errorf("%+v", end)
				}
			}
			t.Run("RDMA to TCP", func(t *testing.T) {
				noLeak(t)
				server := servePort(t, rstream("-T s -p 7500"), 7500)
				run(t, server, "rdma", "tcp", "7471", rstream("-T b -p 7471 -s 10.78.0.1"))
			})
			t.Run("TCP to RDMA", func(t *testing.T) {
				noLeak(t)
				server := serveCM(t, rstream("-T b -p 7471 -b 10.78.0.1"), "7471")
				run(t, server, "tcp front", "rdma", "7501", rstream("-T s -p 7501 -s 127.0.0.1"))
			})
		})
	}
}
