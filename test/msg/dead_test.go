//go:build vm

package msg

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/test/kit"
)

// TestDeadPeer checks that both ends of idle connections, and of connections that write, notice a network that is gone
// by MaxIdleTimeout, also over siw, where TCP would go on for minutes. The times are printed.
func TestDeadPeer(t *testing.T) {
	kit.Only612(t)
	messages, stream := watchful()
	test := func(t *testing.T, from netip.Addr, at, cut, heal string) {
		var pairs [][]speaker
		for _, k := range []talk{messages, messages, stream, stream} { // the second of each also writes
			a, b := k.pair(t, from, at)
			converse(t, a, b, 2)
			pairs = append(pairs, []speaker{a, b})
		}
		time.Sleep(3 * time.Second) // probes are answered
		for _, p := range pairs {
			converse(t, p[0], p[1], 2)
		}
		kit.Sh(t, cut)
		allNotice(t, pairs)
		kit.Sh(t, heal)
		for _, p := range pairs {
			_ = bothEnd(p[0], p[1])
		}
	}
	t.Run("siw", func(t *testing.T) {
		kit.Fabric(t)
		kit.NoLeak(t)
		test(t, netip.Addr{}, kit.DummyIPv4+":0", "tc qdisc add dev lo root netem loss 100%", "tc qdisc del dev lo root")
	})
	t.Run("rxe", func(t *testing.T) {
		kit.RxeWire(t)
		test(t, netip.MustParseAddr(kit.WireNear), kit.WireFar+":0", "tc qdisc add dev gvnear root netem loss 100%", "tc qdisc del dev gvnear root")
	})
}

func watchful() (messages, stream talk) {
	return msgTalk("messages", msg.Config{Window: 8, MaxIdleTimeout: time.Second}), streamTalk(rsocket.Config{MaxIdleTimeout: time.Second})
}

// allNotice waits until each connection has ended because the peer is silent. Those of every second group also write.
func allNotice(t *testing.T, groups [][]speaker) {
	type end struct {
		group int
		err   error
		took  time.Duration
	}
	ends, start, ctx, n := make(chan end), time.Now(), withPatience(t), 0
	for i, group := range groups {
		for _, c := range group {
			n++
			go func() {
				var err error
				for err == nil { // texts from before
					_, err = c.hear(ctx)
				}
				ends <- end{i, err, time.Since(start)}
			}()
			if i%2 == 1 {
				go func() {
					for err := error(nil); err == nil; time.Sleep(time.Millisecond) {
						err = c.say(ctx, "anybody?")
					}
				}()
			}
		}
	}
	for range n {
		e := <-ends
		// Where the device notices first, its own error ends the connection.
		if idle := e.group%2 == 0; e.err == nil || ctx.Err() != nil || idle && !errors.Is(e.err, syscall.ETIMEDOUT) {
			t.Errorf("group %d: %v", e.group, e.err)
		}
		t.Logf("group %d after %v: %v", e.group, e.took, e.err)
	}
}

// TestHostKilled kills the peer's machine. Its program has ended, its
// kernel's last packets never left it, and it answers nothing. This end's link stays up.
func TestHostKilled(t *testing.T) {
	kit.Only612(t)
	test := func(t *testing.T, from netip.Addr, far *exec.Cmd, cut, heal string) {
		host, ctx := kit.Start(t, far), withPatience(t)
		messages, stream := watchful()
		var ours [][]speaker
		for _, k := range []talk{messages, stream} {
			addr := host.Line(t)
			for range 2 { // the second also writes
				c := kit.Must(k.dial(ctx, from, addr))(t)
				kit.OK(t, c.say(ctx, "hello, 1"))
				if got, err := c.hear(ctx); got != "hello, 1" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
				ours = append(ours, []speaker{c})
			}
		}
		kit.Sh(t, cut)
		kit.OK(t, host.Process.Kill())
		_ = host.Wait()
		allNotice(t, ours)
		kit.Sh(t, heal)
		for _, c := range ours {
			_ = c[0].Close()
		}
	}
	t.Run("siw", func(t *testing.T) {
		kit.Fabric(t)
		kit.NoLeak(t)
		far := kit.Child("host", kit.FarIPv4)
		far.Args[0] = kit.Must(os.Executable())(t) // /proc/self/exe would be that of ip
		test(t, netip.Addr{}, kit.InFarSpace(far),
			"tc qdisc add dev gvhere root netem loss 100% && ip netns exec gvfar tc qdisc add dev gvthere root netem loss 100%",
			"tc qdisc del dev gvhere root && ip netns exec gvfar tc qdisc del dev gvthere root")
	})
	t.Run("rxe", func(t *testing.T) {
		kit.RxeWire(t)
		test(t, netip.MustParseAddr(kit.WireNear), kit.Child("host", kit.WireFar),
			"tc qdisc add dev gvnear root netem loss 100% && tc qdisc add dev gvaway root netem loss 100%",
			"tc qdisc del dev gvnear root && tc qdisc del dev gvaway root")
	})
}

// echoHost listens for messages and for streams, prints the two addresses, and sends every text back until it is
// killed.
func echoHost(args []string) error {
	ctx := context.Background()
	messages, stream := watchful()
	for _, k := range []talk{messages, stream} {
		addr, accept, _, err := k.listen(args[0]+":0", 0)
		if err != nil {
			return err
		}
		fmt.Println(addr)
		go func() {
			for {
				c, err := accept(ctx)
				if err != nil {
					return
				}
				go func() {
					for err := error(nil); err == nil; {
						var text string
						if text, err = c.hear(ctx); err == nil {
							err = c.say(ctx, text)
						}
					}
				}()
			}
		}()
	}
	select {}
}
