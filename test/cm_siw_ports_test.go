//go:build vm

package test

import (
	"fmt"
	"io"
	"net"
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

// timeWait leaves n sockets in TIME_WAIT towards addr, on ports from first on: the
// side that closes first has it.
func timeWait(t *testing.T, addr string, first, n int) {
	t.Helper()
	l := must(net.ListenTCP("tcp", must(net.ResolveTCPAddr("tcp", addr))(t)))(t)
	defer l.Close()
	for i := range n {
		local := *l.Addr().(*net.TCPAddr)
		local.Port = first + i
		client := must(net.DialTCP("tcp", &local, l.Addr().(*net.TCPAddr)))(t)
		server := must(l.Accept())(t)
		ok(t, client.Close())
		if _, err := server.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		ok(t, server.Close())
	}
}

// firstPort is where the next run of TestCMPortsInTimeWait begins: below the ports that the
// kernel chooses elsewhere, and behind those of the last run. Both may be in TIME_WAIT still.
var firstPort = 10000

// TestCMPortsInTimeWait dials where half of the ports that the kernel chooses from
// are in TIME_WAIT. The connection manager does not know of that.
func TestCMPortsInTimeWait(t *testing.T) {
	const addr, ports, dials = "10.78.0.1:7471", 128, 16
	first := firstPort
	firstPort += ports
	cmLink(t, "siw")
	sysctl(t, "ip_local_port_range", fmt.Sprintf("%d %d", first, first+ports-1))
	sysctl(t, "tcp_tw_reuse", "0")
	timeWait(t, addr, first, ports/2)
	l := must(rdmacm.Listen(addr))(t)
	served := cmEcho(t, l)
	for i := range dials {
		if err := cmPing(t.Context(), addr, "hello"); err != nil {
			t.Errorf("dial %d: %v", i, err)
		}
	}
	ok(t, l.Close())
	served.Wait()
}
