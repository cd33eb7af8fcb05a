//go:build vm

package test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestGuestPeers proves the guest before anything of ours does: rdma-core's own
// rping moves verified data over a siw link, and the kernel loaded the driver by
// itself when iproute2 asked for the link.
func TestGuestPeers(t *testing.T) {
	needSiw(t)
	if os.Getenv("GOVERBS_VM") == "" {
		t.Fatal("this is not the test machine: run it with go test -exec 'bin/vm run --'")
	}
	sh(t, "ip link add rigdummy type dummy")
	t.Cleanup(func() { sh(t, "ip link del rigdummy") })
	sh(t, "ip addr add 10.77.0.1/24 dev rigdummy && ip link set rigdummy up")
	sh(t, "rdma link add rigsiw type siw netdev rigdummy")
	t.Cleanup(func() { sh(t, "rdma link del rigsiw") })
	if links := sh(t, "rdma link show rigsiw/1"); !strings.Contains(links, "state ACTIVE") {
		t.Errorf("link: %s", links)
	}
	rpingOver(t, "10.77.0.1")
}

// rpingOver runs rdma-core's rping with itself over an address of siw.
func rpingOver(t *testing.T, addr string) {
	t.Helper()
	text := rpingText(t, serveRping, "C", "C", "-C 10 -v", addr)
	if n := strings.Count(text[1], "ping data: rdma-ping-"); n != 10 {
		t.Errorf("%d pings, want 10\n%s", n, text)
	}
}

// sh runs a shell command that has to succeed and returns its output.
func sh(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}
