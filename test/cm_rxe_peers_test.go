//go:build vm

package test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
)

// TestCMRxeNamespaces: rxe on the two ends of a veth pair in different network
// namespaces. Linux 6.1 and 6.12 have one UDP socket for all of rxe, in the first
// namespace, so nothing is ever answered from another one, C or Go. Later kernels
// have one in each; then it works.
func TestCMRxeNamespaces(t *testing.T) {
	rxeFabric(t)
	sh(t, `set -e
		ip netns add gvrfar
		ip link add gvrnhere type veth peer name gvrnthere
		ip link set gvrnthere netns gvrfar
		ip addr add 10.79.0.1/24 dev gvrnhere
		ip link set gvrnhere up
		ip -n gvrfar addr add 10.79.0.2/24 dev gvrnthere
		ip -n gvrfar link set gvrnthere up
		../../bin/rdmalink add gvrxen1 type rxe netdev gvrnhere
		ip netns exec gvrfar ../../bin/rdmalink add gvrxen2 type rxe netdev gvrnthere`)
	// The interface may keep the kernel busy for a minute: packets that waited for
	// an answer hold it. Nobody needs to wait for that.
	t.Cleanup(func() {
		sh(t, `../../bin/rdmalink del gvrxen1 && ../../bin/rdmalink del gvrxen2 || exit
			(ip link del gvrnhere; ip netns del gvrfar) < /dev/null > /dev/null 2>&1 &`)
		until(t, "off the list", func() bool { _, err := os.Stat("/sys/class/net/gvrnhere"); return err != nil })
	})
	const udpPort = ":12B7 " // 4791, where RoCE v2 comes in
	answers := strings.Contains(sh(t, "ip netns exec gvrfar cat /proc/net/udp"), udpPort)
	t.Log("rxe has a socket in the other namespace:", answers)
	for _, program := range []string{"C", "Go"} {
		t.Run(program, func(t *testing.T) {
			noLeak(t)
			cmd := rping(program, "-s -a 10.79.0.2")
			far := exec.Command("ip", append([]string{"netns", "exec", "gvrfar"}, cmd.Args...)...)
			far.Env = os.Environ()
			server := serveCM(t, far, "7174")
			if answers {
				pinged(t, server, launch(t, rping("Go", "-c -V -C 20 -a 10.79.0.2")))
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if _, err := rdmacm.Dial(ctx, "10.79.0.2:7174", nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			server.Process.Kill()
		})
	}
}
