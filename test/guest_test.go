//go:build vm

package test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
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

	var serverOut, out string
	var err error
	for range 5 {
		if serverOut, out, err = guestPing(); err == nil {
			break
		}
	}
	if n := strings.Count(out, "ping data: rdma-ping-"); err != nil || n != 10 {
		t.Errorf("%v, %d pings, want 10\nserver:\n%s\nclient:\n%s", err, n, serverOut, out)
	}
}

// guestPing runs both ends. A race in siw can make it lose sight of the first
// message, which is why they get a limit.
func guestPing() (serverOut, out string, err error) {
	server := exec.Command("timeout", "5", "rping", "-s", "-a", "10.77.0.1", "-C", "10", "-V", "-v")
	var text strings.Builder
	server.Stdout, server.Stderr = &text, &text
	if err := server.Start(); err != nil {
		return "", "", err
	}
	out, err = dialRping("10.77.0.1")
	if err != nil {
		server.Process.Signal(syscall.SIGTERM)
	}
	err = errors.Join(err, server.Wait())
	return text.String(), out, err
}

// dialRping tries again while the server is not listening yet.
func dialRping(addr string) (out string, err error) {
	for range 50 {
		var text []byte
		text, err = exec.Command("timeout", "5", "rping", "-c", "-a", addr, "-C", "10", "-V", "-v").CombinedOutput()
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
