//go:build vm

package test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmacm"
)

// overCut runs a test over a network that it can cut, on connections of all kinds at once: siw
// to the same machine, which goes through lo, and rxe over a veth pair.
func overCut(t *testing.T, rxeToo bool, test func(t *testing.T, pairs [][2]speaker, cut func(percent int))) {
	only612(t)
	pairs := func(t *testing.T, kinds []talk, from netip.Addr, at string) (pairs [][2]speaker) {
		for _, k := range kinds {
			a, b := k.pair(t, from, at)
			converse(t, a, b, 2)
			pairs = append(pairs, [2]speaker{a, b})
		}
		return pairs
	}
	t.Run("siw", func(t *testing.T) {
		fabric(t)
		noLeak(t)
		t.Cleanup(func() { sh(t, "tc qdisc del dev lo root") })
		test(t, pairs(t, talks(t, dummyLink), netip.Addr{}, dummyIPv4+":0"), func(percent int) { lose(t, "lo", percent) })
	})
	if !rxeToo {
		return
	}
	t.Run("rxe", func(t *testing.T) { // a pool would be of one of the two devices
		rxeWire(t)
		kinds := []talk{msgTalk("messages", msg.Config{Window: 8}), streamTalk()}
		test(t, pairs(t, kinds, netip.MustParseAddr(wireNear), wireFar+":0"), func(percent int) { lose(t, "gvnear", percent) })
	})
}

// TestCut: a network that is gone for 3 seconds only holds things up. On rxe that is not
// much less than what ends a connection (TestCutForGood), so a slow machine could not tell.
func TestCut(t *testing.T) {
	overCut(t, false, func(t *testing.T, pairs [][2]speaker, cut func(int)) {
		cut(100)
		for _, p := range pairs {
			ok(t, p[0].say(withPatience(t), "hold on!"))
		}
		time.Sleep(3 * time.Second) // the cut
		cut(0)
		for _, p := range pairs {
			if got := must(p[1].hear(withPatience(t)))(t); got != "hold on!" {
				t.Errorf("%q", got)
			}
			converse(t, p[0], p[1], 2)
			ok(t, bothEnd(p[0], p[1]))
		}
	})
}

// TestCutForGood: a network that does not come back ends the connection of a sender.
func TestCutForGood(t *testing.T) {
	const retries = "/proc/sys/net/ipv4/tcp_retries2" // else TCP takes a quarter of an hour
	before := must(os.ReadFile(retries))(t)
	ok(t, os.WriteFile(retries, []byte("3"), 0))
	t.Cleanup(func() { ok(t, os.WriteFile(retries, before, 0)) })
	overCut(t, true, func(t *testing.T, pairs [][2]speaker, cut func(int)) {
		cut(100)
		ctx := withPatience(t)
		ends := make(chan error, 2*len(pairs))
		for _, p := range pairs {
			go func() { _, err := p[0].hear(ctx); ends <- err }()
			go func() {
				var err error
				for err == nil {
					err = p[0].say(ctx, "anybody?")
				}
				ends <- err
			}()
		}
		for range cap(ends) {
			if err := <-ends; err == nil || ctx.Err() != nil {
				t.Error("it did not end by itself:", err)
			}
		}
		cut(0)
		for _, p := range pairs {
			_ = bothEnd(p[0], p[1]) // the other end may wait for an answer that nobody gives
		}
	})
}

// TestRemoved: the device goes away under connections and listeners. All calls end, and
// say why.
func TestRemoved(t *testing.T) {
	only612(t)
	for _, typ := range []string{"siw", "rxe"} {
		t.Run(typ, func(t *testing.T) {
			if typ == "siw" {
				needSiw(t)
			}
			dummy(t, "gvremove", "10.87.0.1/24")
			for i := range 3 {
				ok(t, (&netlinkrdma.Client{}).AddLink("gvremoved", typ, "gvremove"))
				removal := exec.Command(rdmalinkBin, "del", "gvremoved")
				var running *running
				t.Run(strconv.Itoa(i), func(calls *testing.T) {
					removed(calls, talks(calls, "gvremoved")[i], func() { running = launch(t, removal) })
				})
				if out := running.end(); out != (output{}) { // when all have closed it
					t.Errorf("%+v", out)
				}
			}
		})
	}
}

func removed(t *testing.T, k talk, remove func()) {
	a, b := k.pair(t, netip.Addr{}, "10.87.0.1:0")
	converse(t, a, b, 2)
	_, accept, closeListener, err := k.listen("10.87.0.1:0", 0)
	ok(t, err)
	ends := make(chan error, 3)
	for _, wait := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := a.hear(ctx); return err },
		func(ctx context.Context) error { _, err := b.hear(ctx); return err },
		func(ctx context.Context) error { _, err := accept(ctx); return err },
	} {
		go func() { ends <- wait(withPatience(t)) }()
	}
	remove()
	for range 3 {
		if err := <-ends; !errors.Is(err, rdmacm.ErrDeviceRemoved) {
			t.Errorf("%s: %v", k.name, err)
		}
	}
	ok(t, closeListener())
	t.Log(bothEnd(a, b))
}
