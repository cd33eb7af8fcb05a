//go:build vm

package msg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
)

// speaker is an end of a connection that carries texts of 8 bytes, by messages or by a
// byte stream.
type speaker interface {
	say(ctx context.Context, text string) error
	hear(ctx context.Context) (string, error)
	Close() error
}

type msgSpeaker struct{ *msg.Conn }

func (c msgSpeaker) say(ctx context.Context, text string) error { return c.Send(ctx, []byte(text)) }

// Close waits until the peer has everything.
func (c msgSpeaker) Close() error { return c.Shutdown(context.Background()) }

func (c msgSpeaker) hear(ctx context.Context) (string, error) {
	m, err := c.Recv(ctx)
	if err != nil {
		return "", err
	}
	defer m.Release()
	return string(m.Bytes()), nil
}

type streamSpeaker struct{ net.Conn }

func (c streamSpeaker) say(ctx context.Context, text string) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_, err := io.WriteString(c, text)
	return err
}

func (c streamSpeaker) hear(ctx context.Context) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	text := make([]byte, 8)
	_, err := io.ReadFull(c, text)
	return string(text), err
}

// talk is a way to connect.
type talk struct {
	name string
	// listen listens with a backlog; accept waits for a peer.
	listen func(at string, backlog int) (addr string, accept func(context.Context) (speaker, error), close func() error, err error)
	dial   func(ctx context.Context, from netip.Addr, to string) (speaker, error)
}

// talks are all ways: messages with and without a pool, and byte streams. dev is the device
// of the pools, which are closed when the test ends.
func talks(t *testing.T, dev string) []talk {
	cfg := msg.Config{Window: 8}
	pooled := cfg
	pooled.Pool = kit.Must(msg.NewPool(openLater(t, dev), 64, &cfg))(t)
	kit.CloseLater(t, pooled.Pool)
	return []talk{msgTalk("messages", cfg), msgTalk("messages of a pool", pooled), streamTalk(rsocket.Config{})}
}

func openLater(t *testing.T, dev string) *uverbs.Device {
	d := kit.Must(uverbs.Open(dev))(t)
	kit.CloseLater(t, d)
	return d
}

func msgTalk(name string, cfg msg.Config) talk {
	return talk{name,
		func(at string, backlog int) (string, func(context.Context) (speaker, error), func() error, error) {
			l, err := (&msg.ListenConfig{Config: cfg, Backlog: backlog}).Listen(context.Background(), at)
			if err != nil {
				return "", nil, nil, err
			}
			return l.Addr().String(), func(ctx context.Context) (speaker, error) {
				c, err := l.Accept(ctx)
				return msgSpeaker{c}, err
			}, l.Close, nil
		},
		func(ctx context.Context, from netip.Addr, to string) (speaker, error) {
			d := msg.Dialer{Config: cfg}
			if from.IsValid() {
				d.LocalAddr = netip.AddrPortFrom(from, 0)
			}
			c, err := d.Dial(ctx, to)
			return msgSpeaker{c}, err
		}}
}

func streamTalk(cfg rsocket.Config) talk {
	return talk{"a stream",
		func(at string, backlog int) (string, func(context.Context) (speaker, error), func() error, error) {
			l, err := (&rsocket.ListenConfig{Config: cfg, Backlog: backlog}).Listen(context.Background(), at)
			if err != nil {
				return "", nil, nil, err
			}
			return l.Addr().String(), func(context.Context) (speaker, error) {
				c, err := l.Accept()
				return streamSpeaker{c}, err
			}, l.Close, nil
		},
		func(ctx context.Context, from netip.Addr, to string) (speaker, error) {
			d := rsocket.Dialer{Config: cfg}
			if from.IsValid() {
				d.LocalAddr = netip.AddrPortFrom(from, 0)
			}
			c, err := d.DialContext(ctx, "rsocket", to)
			return streamSpeaker{c}, err
		}}
}

// pair makes both ends of a connection, from an address or any.
func (k talk) pair(t *testing.T, from netip.Addr, at string) (dialled, accepted speaker) {
	t.Helper()
	dialled, accepted, err := k.meet(withPatience(t), from, at)
	kit.OK(t, err)
	return dialled, accepted
}

func (k talk) meet(ctx context.Context, from netip.Addr, at string) (dialled, accepted speaker, err error) {
	addr, accept, closeListener, err := k.listen(at, 0)
	if err != nil {
		return nil, nil, err
	}
	done := make(chan error, 1)
	go func() {
		var err error
		accepted, err = accept(ctx)
		done <- err
	}()
	if dialled, err = k.dial(ctx, from, addr); err != nil {
		return nil, nil, errors.Join(err, closeListener(), <-done) // which ends the accept
	}
	return dialled, accepted, errors.Join(<-done, closeListener())
}

// converse has texts go there and back.
func converse(t *testing.T, a, b speaker, rounds int) {
	t.Helper()
	for i := range rounds {
		kit.OK(t, swap(withPatience(t), a, b, fmt.Sprintf("text %03d", i)))
	}
}

// swap has a text of 8 bytes go there and back.
func swap(ctx context.Context, a, b speaker, text string) error {
	for _, way := range [][2]speaker{{a, b}, {b, a}} {
		if err := way[0].say(ctx, text); err != nil {
			return err
		}
		got, err := way[1].hear(ctx)
		if err != nil || got != text {
			return fmt.Errorf("%q, not %q: %w", got, text, err)
		}
	}
	return nil
}

// bothEnd closes both ends at once.
func bothEnd(a, b speaker) error {
	closed := make(chan error, 1)
	go func() { closed <- a.Close() }()
	return errors.Join(b.Close(), <-closed)
}

// overCut runs a test over a network that it can cut, on connections of all kinds at once: siw
// to the same machine, which goes through lo, and rxe over a veth pair.
func overCut(t *testing.T, rxeToo bool, test func(t *testing.T, pairs [][2]speaker, cut func(percent int))) {
	kit.Only612(t)
	pairs := func(t *testing.T, kinds []talk, from netip.Addr, at string) (pairs [][2]speaker) {
		for _, k := range kinds {
			a, b := k.pair(t, from, at)
			converse(t, a, b, 2)
			pairs = append(pairs, [2]speaker{a, b})
		}
		return pairs
	}
	t.Run("siw", func(t *testing.T) {
		kit.Fabric(t)
		kit.NoLeak(t)
		t.Cleanup(func() { kit.Sh(t, "tc qdisc del dev lo root") })
		test(t, pairs(t, talks(t, kit.DummyLink), netip.Addr{}, kit.DummyIPv4+":0"), func(percent int) { kit.Lose(t, "lo", percent) })
	})
	if !rxeToo {
		return
	}
	t.Run("rxe", func(t *testing.T) { // a pool would be of one of the two devices
		kit.RxeWire(t)
		kinds := []talk{msgTalk("messages", msg.Config{Window: 8}), streamTalk(rsocket.Config{})}
		test(t, pairs(t, kinds, netip.MustParseAddr(kit.WireNear), kit.WireFar+":0"), func(percent int) { kit.Lose(t, "gvnear", percent) })
	})
}

// TestCut checks that a network that is gone for 3 seconds only delays messages. On rxe a connection ends not much
// later (TestCutForGood), so a slow machine could not distinguish the two.
func TestCut(t *testing.T) {
	overCut(t, false, func(t *testing.T, pairs [][2]speaker, cut func(int)) {
		cut(100)
		for _, p := range pairs {
			kit.OK(t, p[0].say(withPatience(t), "hold on!"))
		}
		time.Sleep(3 * time.Second) // the cut
		cut(0)
		for _, p := range pairs {
			if got := kit.Must(p[1].hear(withPatience(t)))(t); got != "hold on!" {
				t.Errorf("%q", got)
			}
			converse(t, p[0], p[1], 2)
			kit.OK(t, bothEnd(p[0], p[1]))
		}
	})
}

// TestCutForGood checks that a network that does not come back ends the connection of a sender.
func TestCutForGood(t *testing.T) {
	const retries = "/proc/sys/net/ipv4/tcp_retries2" // else TCP takes a quarter of an hour
	before := kit.Must(os.ReadFile(retries))(t)
	kit.OK(t, os.WriteFile(retries, []byte("3"), 0))
	t.Cleanup(func() { kit.OK(t, os.WriteFile(retries, before, 0)) })
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

// TestRemoved removes the device of connections and listeners. All calls end with an error that says so.
func TestRemoved(t *testing.T) {
	kit.Only612(t)
	for _, typ := range []string{"siw", "rxe"} {
		t.Run(typ, func(t *testing.T) {
			if typ == "siw" {
				kit.NeedSiw(t)
			}
			kit.Dummy(t, "gvremove", "10.87.0.1/24")
			for i := range 3 {
				kit.OK(t, (&netlinkrdma.Client{}).AddLink("gvremoved", typ, "gvremove"))
				removal := exec.Command(kit.RdmalinkBin, "del", "gvremoved")
				var running *kit.Running
				t.Run(strconv.Itoa(i), func(calls *testing.T) {
					removed(calls, talks(calls, "gvremoved")[i], func() { running = kit.Launch(t, removal) })
				})
				if out := running.End(); out != (kit.Output{}) { // when all have closed it
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
	kit.OK(t, err)
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
	kit.OK(t, closeListener())
	t.Log(bothEnd(a, b))
}
