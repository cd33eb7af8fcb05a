//go:build vm

package test

import (
	"fmt"
	"os"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
)

// sysctl sets a value until the test ends.
func sysctl(t *testing.T, path, value string) {
	t.Helper()
	path = "/proc/sys/net/ipv4/" + path
	old := must(os.ReadFile(path))(t)
	ok(t, os.WriteFile(path, []byte(value), 0))
	t.Cleanup(func() { ok(t, os.WriteFile(path, old, 0)) })
}

// TestCMPortsInTimeWait dials where a third of the ports that the kernel chooses
// from is soon in TIME_WAIT: the connection manager does not know of that.
func TestCMPortsInTimeWait(t *testing.T) {
	const ports, dials = 128, 40
	cmLink(t, "siw")
	sysctl(t, "ip_local_port_range", fmt.Sprintf("40000 %d", 40000+ports-1))
	sysctl(t, "tcp_tw_reuse", "0")
	l := must(rdmacm.Listen("10.78.0.1:7471", nil))(t)
	served := cmEcho(t, l)
	for i := range dials {
		if err := cmPing(t.Context(), l.Addr().String(), "hello"); err != nil {
			t.Errorf("dial %d: %v", i, err)
		}
	}
	ok(t, l.Close())
	served.Wait()
}
