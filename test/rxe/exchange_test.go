//go:build vm

package rxe

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
)

// TestRxeExchange has client and server in this process, over RoCE.
func TestRxeExchange(t *testing.T) {
	kit.RxeFabric(t)
	for _, host := range []string{kit.RxeIPv4, kit.RxeIPv6} {
		t.Run(host, func(t *testing.T) {
			kit.NoLeak(t)
			ctx, cancel := context.WithTimeout(t.Context(), 3*kit.Patience)
			defer cancel()
			ln := kit.Must(rdmacm.Listen(t.Context(), kit.HostPort(host, "0")))(t)
			defer ln.Close()
			for _, size := range append([]int{1 << 20}, kit.SomeSizes...) {
				kit.ExchangeOnce(ctx, t, ln, size)
			}
		})
	}
}

// TestRxeExchangeStatic has the static binary at both ends.
func TestRxeExchangeStatic(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	server := kit.Start(t, exec.Command("../../bin/exchange", "-s", kit.RxeIPv4+":7471"))
	server.Line(t)
	out := kit.Sh(t, "../../bin/exchange -c "+kit.RxeIPv4+":7471 -size 1000000")
	if !strings.HasPrefix(out, "client: 1000000 bytes,") || !strings.HasSuffix(out, "data equal\n") {
		t.Errorf("%q", out)
	}
	server.Finish(t)
}
