//go:build vm

package test

import (
	"fmt"
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

// rpingOver has rdma-core's rping talk to itself over an address of siw. A race in
// siw can leave the first message lying, and C's rping then waits for ever; hence
// the limit, after which both get another chance.
func rpingOver(t *testing.T, addr string) {
	t.Helper()
	var server, client output
	for range 5 {
		s := serveRping(t, limited(rping("C", "-s -C 10 -V -v -a "+addr)))
		client = runCommand(t, limited(rping("C", "-c -C 10 -V -v -a "+addr)))
		if server = s.end(); server.Code == 0 && client.Code == 0 {
			break
		}
	}
	if n := strings.Count(client.Out, "ping data: rdma-ping-"); server.Code != 0 || client.Code != 0 || n != 10 {
		t.Errorf("%d pings, want 10\nserver: %+v\nclient: %+v", n, server, client)
	}
}

// limited ends a command of C's that hangs.
func limited(cmd *exec.Cmd) *exec.Cmd {
	return exec.Command("timeout", append([]string{"-k", "1", fmt.Sprint(aChance.Seconds())}, cmd.Args...)...)
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
