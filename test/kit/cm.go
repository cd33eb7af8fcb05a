//go:build vm

package kit

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// ServeCM starts a server and waits until one of its rdma_cm IDs listens on the
// port. Over RoCE there is no TCP port to wait for.
func ServeCM(t *testing.T, cmd *exec.Cmd, port string) *Running {
	t.Helper()
	server := Launch(t, cmd)
	server.Listens(func() bool { return ListeningCM(t, server.Process.Pid, port) })
	return server
}

// ListeningCM reports whether an rdma_cm ID of a process listens on a port.
func ListeningCM(t *testing.T, pid int, port string) bool {
	t.Helper()
	var c netlinkrdma.Client
	for _, d := range Must(c.Devices())(t) {
		for _, id := range Dumped(t, c.CMIDs(d.Index, nil)) {
			owner, err := id.PID()
			if err == nil && owner == pid && id.State == netlinkrdma.CMStateListen && fmt.Sprint(id.Src.AddrPort.Port()) == port {
				return true
			}
		}
	}
	return false
}

// CMLink adds an RDMA link of a type on a dummy interface with an IPv4 and an IPv6
// address.
func CMLink(t *testing.T, typ string) {
	t.Helper()
	if typ == "siw" {
		NeedSiw(t)
	}
	Dummy(t, "cmdummy", "10.78.0.1/24", "fd78::1/64", "fe80::78/64")
	Link(t, "cmlink", typ, "cmdummy")
}
