//go:build vm

package test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestGuestPeers proves the guest before anything of ours does: rdma-core's own
// rping moves verified data over a siw link, and the kernel loaded the driver by
// itself when iproute2 asked for the link.
func TestGuestPeers(t *testing.T) {
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

	server := exec.Command("rping", "-s", "-a", "10.77.0.1", "-C", "10", "-V", "-v")
	var serverOut strings.Builder
	server.Stdout, server.Stderr = &serverOut, &serverOut
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	out, err := dialRping("10.77.0.1")
	if err != nil {
		server.Process.Kill()
		server.Wait()
		t.Fatalf("rping client: %v\n%s", err, out)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("rping server: %v\n%s", err, &serverOut)
	}
	if n := strings.Count(out, "ping data: rdma-ping-"); n != 10 {
		t.Errorf("%d pings, want 10:\n%s", n, out)
	}
}

// dialRping tries again while the server is not listening yet.
func dialRping(addr string) (out string, err error) {
	for range 50 {
		var text []byte
		text, err = exec.Command("rping", "-c", "-a", addr, "-C", "10", "-V", "-v").CombinedOutput()
		out = string(text)
		if !strings.Contains(out, "REJECTED") && !strings.Contains(out, "connect error") {
			return out, err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return out, err
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
