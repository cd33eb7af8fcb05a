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

// overCut runs a test over a network that it can cut: siw to the same machine, which goes
// through lo, and rxe over a veth pair.
func overCut(t *testing.T, test func(t *testing.T, k talk, from netip.Addr, at string, cut func(t *testing.T, percent int))) {
	onOneKernel(t)
	t.Run("siw", func(t *testing.T) {
		fabric(t)
		noLeak(t)
		t.Cleanup(func() { sh(t, "tc qdisc del dev lo root") })
		for _, k := range talks(t, dummyLink) {
			t.Run(k.name, func(t *testing.T) {
				test(t, k, netip.Addr{}, dummyIPv4+":0", func(t *testing.T, percent int) { lose(t, "lo", percent) })
			})
		}
	})
	t.Run("rxe", func(t *testing.T) {
		rxeWire(t)
		for _, k := range []talk{msgTalk("messages", msg.Config{Window: 8}), streamTalk()} {
			t.Run(k.name, func(t *testing.T) {
				test(t, k, netip.MustParseAddr(wireNear), wireFar+":0", func(t *testing.T, percent int) { lose(t, "gvnear", percent) })
			})
		}
	})
}

// TestCut: a network that is gone for 3 seconds only holds things up.
func TestCut(t *testing.T) {
	overCut(t, func(t *testing.T, k talk, from netip.Addr, at string, cut func(*testing.T, int)) {
		a, b := k.pair(t, from, at)
		converse(t, a, b, 2)
		cut(t, 100)
		ok(t, a.say(withPatience(t), "hold on!"))
		time.Sleep(3 * time.Second) // the cut
		cut(t, 0)
		if got := must(b.hear(withPatience(t)))(t); got != "hold on!" {
			t.Errorf("%q", got)
		}
		converse(t, a, b, 2)
		ok(t, bothEnd(a, b))
	})
}

// TestCutForGood: a network that does not come back ends the connection of who sends.
func TestCutForGood(t *testing.T) {
	const retries = "/proc/sys/net/ipv4/tcp_retries2" // else TCP takes a quarter of an hour
	before := must(os.ReadFile(retries))(t)
	ok(t, os.WriteFile(retries, []byte("3"), 0))
	t.Cleanup(func() { ok(t, os.WriteFile(retries, before, 0)) })
	overCut(t, func(t *testing.T, k talk, from netip.Addr, at string, cut func(*testing.T, int)) {
		a, b := k.pair(t, from, at)
		converse(t, a, b, 2)
		cut(t, 100)
		ctx := withPatience(t)
		heard := make(chan error, 1)
		go func() { _, err := a.hear(ctx); heard <- err }()
		var err error
		for err == nil {
			err = a.say(ctx, "anybody?")
		}
		if hear := <-heard; hear == nil || ctx.Err() != nil {
			t.Errorf("it ended by itself: say: %v, hear: %v", err, hear)
		}
		t.Log(err)
		cut(t, 0)
		t.Log(bothEnd(a, b)) // the peer waits for an answer that nobody gives
	})
}

// TestRemoved: the device goes away under connections and listeners. All calls end, and
// say why.
func TestRemoved(t *testing.T) {
	onOneKernel(t)
	for _, typ := range []string{"siw", "rxe"} {
		t.Run(typ, func(t *testing.T) {
			if typ == "siw" {
				needSiw(t)
			}
			dummy(t, "gvremove", "10.87.0.1/24")
			for i := range 3 {
				ok(t, (&netlinkrdma.Client{}).AddLink("gvremoved", typ, "gvremove"))
				removal := exec.Command("../bin/rdmalink", "del", "gvremoved")
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
		if err := <-ends; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", k.name, err)
		} else if !errors.Is(err, rdmacm.ErrDeviceRemoved) {
			t.Logf("%s: %v", k.name, err)
		}
	}
	ok(t, closeListener())
	t.Log(bothEnd(a, b))
}
