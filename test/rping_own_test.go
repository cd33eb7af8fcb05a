//go:build vm

package test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// TestRpingOwnQP: -q makes no difference to the peer, one client or many. C's has it on
// RoCE only: its queue pair asks for a P_Key.
func TestRpingOwnQP(t *testing.T) {
	only612(t)
	for typ, pairs := range map[string][][2]string{
		"siw": {{"C", "Go -q"}, {"Go -q", "C"}, {"Go -q", "Go -q"}},
		"rxe": {{"C -q", "Go -q"}, {"Go -q", "C -q"}, {"Go", "Go -q"}, {"Go -q", "Go"}},
	} {
		t.Run(typ, func(t *testing.T) {
			cmLink(t, typ)
			run := func(who, line string) (string, string) {
				program, q, _ := strings.Cut(who, " ")
				return program, line + " " + q
			}
			for _, pair := range pairs {
				t.Run(fmt.Sprint(pair), func(t *testing.T) {
					noLeak(t)
					server := serveCM(t, rping(run(pair[0], "-s -S 3000 -a 10.78.0.1")), "7174")
					pinged(t, server, launch(t, rping(run(pair[1], "-c -V -C 10 -S 3000 -a 10.78.0.1"))))
				})
			}
			t.Run("many", func(t *testing.T) {
				noLeak(t)
				server := serveCM(t, rping("Go", "-s -P -q -d"), "7174")
				var clients []*running
				for _, addr := range []string{"10.78.0.1", "fd78::1"} {
					for _, who := range []string{"C", "Go", "Go -q"} {
						clients = append(clients, launch(t, rping(run(who, "-c -V -C 5 -a "+addr))))
					}
				}
				for _, c := range clients {
					if out, _ := rpingEnd(c); out.Code != 0 {
						t.Error(c.brief(out))
					}
				}
				ok(t, server.Process.Signal(syscall.SIGTERM))
				out := server.end()
				if n := strings.Count(out.Err, "RDMA_WRITE of 64 bytes is done"); out.Code != 0 || out.Out != "" || n != 30 || strings.Count(out.Err, "connected: ") != 6 {
					t.Errorf("%d writes, %+v", n, out)
				}
			})
		})
	}
}
