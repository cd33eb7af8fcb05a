//go:build vm

package test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
)

// TestRxeExchange has client and server in this process, over RoCE.
func TestRxeExchange(t *testing.T) {
	rxeFabric(t)
	for _, host := range []string{rxeIPv4, rxeIPv6} {
		t.Run(host, func(t *testing.T) {
			noLeak(t)
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			ln := must(rdmacm.Listen(hostPort(host, "0"), nil))(t)
			defer ln.Close()
			for _, size := range append([]int{1 << 20}, someSizes...) {
				exchangeOnce(ctx, t, ln, size)
			}
		})
	}
}

// TestRxeExchangeStatic has the static binary at both ends.
func TestRxeExchangeStatic(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	server := start(t, exec.Command("../../bin/exchange", "-s", rxeIPv4+":7471"))
	server.line(t)
	out := sh(t, "../../bin/exchange -c "+rxeIPv4+":7471 -size 1000000")
	if !strings.HasPrefix(out, "client: 1000000 bytes,") || !strings.HasSuffix(out, "data equal\n") {
		t.Errorf("%q", out)
	}
	server.finish(t)
}
