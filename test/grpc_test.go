//go:build vm

package test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestGRPC has the programs of examples/grpc talk to each other: TLS, a large call, a
// thousand streams at a time on one connection.
func TestGRPC(t *testing.T) {
	only612(t)
	eachIPv4Host(t, func(t *testing.T, host string) {
		cert := filepath.Join(t.TempDir(), "cert.pem")
		server := serveCM(t, exec.Command("../../bin/grpc/server", "-cert", cert, "-host", host), "7471")
		out := launch(t, exec.Command("../../bin/grpc/client", "-cert", cert, "-timeout", "10m", hostPort(host, "7471"))).end()
		if out.Code != 0 || !strings.HasSuffix(out.Out, "1000 streams at a time: ok\n") {
			t.Errorf("%+v", out)
		}
		ok(t, server.Process.Signal(syscall.SIGINT))
		if out := server.end(); out.Code != 0 {
			t.Errorf("%+v", out)
		}
	})
}
