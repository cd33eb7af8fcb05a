//go:build vm

package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// ucmatosed says what ucmatose should have printed.
func ucmatosed(t *testing.T, r *running) {
	t.Helper()
	if out := r.end(); out.Code != 0 || !strings.Contains(out.Out, "data transfers complete\n") ||
		!strings.HasSuffix(out.Out, "disconnected\ntest complete\nreturn status 0\n") && !strings.HasSuffix(out.Out, "test complete\nreturn status 0\n") {
		t.Errorf("%+v", out)
	}
}

// matoseConfig is a queue pair with receives for so many messages of size.
func (e *end) matoseConfig(count, size int) *rdmacm.Config {
	return &rdmacm.Config{
		QP: uverbs.QPOptions{Cap: uverbs.QPCap{MaxSendWR: uint32(count), MaxRecvWR: uint32(count), MaxSendSGE: 1, MaxRecvSGE: 1}},
		Prepare: func(c *rdmacm.Conn) (err error) {
			e.Conn = c
			if e.mr, err = c.PD().AllocMR(2*size, uverbs.AccessLocalWrite, nil); err != nil {
				return err
			}
			c.Own(e.mr)
			for i := range count {
				_, err = c.QP().PostRecv([]uverbs.RecvWR{{WRID: uint64(i), SGL: []uverbs.SGE{e.mr.SGE(0, size)}}})
			}
			return err
		},
	}
}

func (e *end) matoseSend(count, size int) {
	e.t.Helper()
	e.matosePost(count, size)
	for i := range count {
		e.sent(fmt.Sprintf("%d SEND success", i))
	}
}

// matoseSendLast is matoseSend to a peer that disconnects when it has all. That
// can take the QP down before the peer's acknowledgement gets here.
func (e *end) matoseSendLast(count, size int) {
	e.t.Helper()
	e.matosePost(count, size)
	status := "success"
	for i := range count {
		got := brief(e.next(e.SendCQ()))
		if status == "success" && strings.HasSuffix(got, " flushed") {
			status = "work request flushed"
		}
		if want := fmt.Sprintf("%d SEND %s", i, status); got != want {
			e.t.Errorf("send completion %q, want %q", got, want)
		}
	}
}

func (e *end) matosePost(count, size int) {
	e.t.Helper()
	for i := range count {
		e.post(uverbs.SendWR{WRID: uint64(i), Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled, SGL: []uverbs.SGE{e.mr.SGE(size, size)}})
	}
}

func (e *end) matoseReceive(count, size int) {
	e.t.Helper()
	for i := range count {
		e.got(fmt.Sprintf("%d RECV success %d", i, size))
	}
}

var matoseSizes = []struct{ count, size int }{{10, 100}, {1, 1}, {20, 5000}, {3, 1 << 17}}

// TestUcmatoseServer has C's server, which sends first, and disconnects when it
// has received as much.
func TestUcmatoseServer(t *testing.T) {
	rxeFabric(t)
	for _, n := range matoseSizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			noLeak(t)
			server := serveCM(t, exec.Command("ucmatose", "-C", fmt.Sprint(n.count), "-S", fmt.Sprint(n.size)), "7471")
			e := &end{t: t}
			must(dialRxe(t, "7471", e.matoseConfig(n.count, n.size)))(t)
			closeLater(t, e)
			e.matoseReceive(n.count, n.size)
			e.matoseSendLast(n.count, n.size)
			if err := e.ended(); !errors.Is(err, rdmacm.ErrDisconnected) {
				t.Error(err)
			}
			ucmatosed(t, server)
		})
	}
}

// TestUcmatoseClient has two connections of C's client.
func TestUcmatoseClient(t *testing.T) {
	rxeFabric(t)
	for _, n := range matoseSizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			noLeak(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			l := must(rdmacm.Listen(rxeIPv4+":7471", nil))(t)
			closeLater(t, l)
			client := launch(t, exec.Command("ucmatose", "-s", rxeIPv4, "-c", "2", "-C", fmt.Sprint(n.count), "-S", fmt.Sprint(n.size)))
			var ends []*end
			for range 2 {
				e := &end{t: t}
				must(must(l.Next(ctx))(t).Accept(ctx, e.matoseConfig(n.count, n.size)))(t)
				closeLater(t, e)
				ends = append(ends, e)
			}
			for _, e := range ends {
				e.matoseSend(n.count, n.size)
			}
			for _, e := range ends {
				e.matoseReceive(n.count, n.size)
			}
			for _, e := range ends {
				if err := e.Disconnect(); err != nil {
					t.Error(err)
				}
			}
			ucmatosed(t, client)
		})
	}
}

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
		../bin/rdmalink add gvrxen1 type rxe netdev gvrnhere
		ip netns exec gvrfar ../bin/rdmalink add gvrxen2 type rxe netdev gvrnthere`)
	// The interface may keep the kernel busy for a minute: packets that waited for
	// an answer hold it. Nobody needs to wait for that.
	t.Cleanup(func() {
		sh(t, `../bin/rdmalink del gvrxen1 && ../bin/rdmalink del gvrxen2 || exit
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
