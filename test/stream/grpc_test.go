//go:build vm

package stream

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

// TestGRPC has the programs of examples/grpc talk to each other: TLS, a large call, a
// thousand streams at a time on one connection.
func TestGRPC(t *testing.T) {
	kit.Only612(t)
	eachIPv4Host(t, func(t *testing.T, host string) {
		cert := filepath.Join(t.TempDir(), "cert.pem")
		server := kit.ServeCM(t, exec.Command("../../bin/grpc/server", "-cert", cert, "-host", host), "7471")
		out := kit.Launch(t, exec.Command("../../bin/grpc/client", "-cert", cert, "-timeout", "10m", kit.HostPort(host, "7471"))).End()
		if out.Code != 0 || !strings.HasSuffix(out.Out, "1000 streams at a time: ok\n") {
			t.Errorf("%+v", out)
		}
		kit.OK(t, server.Process.Signal(syscall.SIGINT))
		if out := server.End(); out.Code != 0 {
			t.Errorf("%+v", out)
		}
	})
}
