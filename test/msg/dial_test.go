//go:build vm

package msg

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
)

// onEachFabric runs a test over siw and rxe.
func onEachFabric(t *testing.T, test func(t *testing.T, link, host string)) {
	t.Run("rxe", func(t *testing.T) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		test(t, kit.RxeLink, kit.RxeIPv4)
	})
	t.Run("siw", func(t *testing.T) {
		kit.Fabric(t)
		kit.NoLeak(t)
		test(t, kit.DummyLink, kit.DummyIPv4)
	})
}

// TestListenerClosedUnderDials checks that dials that a listener has not let in end with it, and so do those that its
// backlog had no room for.
func TestListenerClosedUnderDials(t *testing.T) {
	kit.Only612(t)
	const dials, backlog = 6, 2
	onEachFabric(t, func(t *testing.T, link, host string) {
		for _, k := range talks(t, link) {
			t.Run(k.name, func(t *testing.T) {
				addr, _, closeListener, err := k.listen(host+":0", backlog)
				kit.OK(t, err)
				ends := make(chan error, dials)
				for range dials {
					go func() { _, err := k.dial(withPatience(t), netip.Addr{}, addr); ends <- err }()
				}
				at := netip.MustParseAddrPort(addr)
				kit.Until(t, "a dial under way", func() bool { return asked(t, at) })
				kit.OK(t, closeListener())
				for range dials {
					if err := <-ends; err == nil || errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				}
			})
		}
	})
}

// TestHandshakeKilled checks that whichever process dies during the handshake, the other one's call ends, and a
// listener goes on.
func TestHandshakeKilled(t *testing.T) {
	kit.Only612(t)
	onEachFabric(t, func(t *testing.T, _, host string) {
		t.Run("who dials", func(t *testing.T) {
			l := kit.Must(msg.Listen(t.Context(), host+":0"))(t)
			kit.CloseLater(t, l)
			p := kit.Start(t, kit.Child("msg victim", l.Addr().String()))
			kit.Until(t, "a dial under way", func() bool { return asked(t, l.Addr()) })
			p.Process.Kill()
			p.Wait()
			good := kit.Start(t, kit.Child("msg victim", l.Addr().String()))
			for {
				c, err := l.Accept(withPatience(t))
				if err != nil {
					t.Log("of the dead one:", err)
					continue
				}
				m, err := c.Recv(withPatience(t))
				if err == nil { // of the good one
					m.Release()
					good.Process.Kill()
					kit.OK(t, c.Close())
					return
				}
				t.Log("of the dead one:", err)
				kit.OK(t, c.Close())
			}
		})
		t.Run("who has been asked", func(t *testing.T) {
			p := kit.Start(t, kit.Child("silent listener", host+":0"))
			addr := p.Line(t)
			dialled := make(chan error, 1)
			go func() { _, err := msg.Dial(withPatience(t), addr); dialled <- err }()
			p.Line(t) // it has been asked
			p.Process.Kill()
			if err := <-dialled; err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		t.Run("who has accepted", func(t *testing.T) {
			p := kit.Start(t, kit.Child("msg listener", host+":0"))
			c := kit.Must(msg.Dial(withPatience(t), p.Line(t)))(t)
			p.Process.Kill()
			_, err := c.Recv(withPatience(t))
			isEnd(t, err)
			kit.OK(t, c.Close())
		})
	})
}

// asked reports whether the kernel has an ID for a peer of a listener.
func asked(t *testing.T, listener netip.AddrPort) bool {
	t.Helper()
	var client netlinkrdma.Client
	for _, d := range kit.Must(client.Devices())(t) {
		for _, id := range kit.Dumped(t, client.CMIDs(d.Index, nil)) {
			if id.Src.AddrPort == listener && id.Dst.AddrPort.Port() != 0 {
				return true
			}
		}
	}
	return false
}

// silentListener takes a request and does not answer it.
func silentListener(args []string) error {
	l, err := rdmacm.Listen(context.Background(), args[0])
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	if _, err := l.Next(context.Background()); err != nil {
		return err
	}
	fmt.Println("asked")
	select {}
}

// msgListener accepts one peer.
func msgListener(args []string) error {
	l, err := msg.Listen(context.Background(), args[0])
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	if _, err := l.Accept(context.Background()); err != nil {
		return err
	}
	select {}
}

// TestStopped checks that a stopped peer blocks its senders until their contexts end. When it continues, so do they.
func TestStopped(t *testing.T) {
	kit.Only612(t)
	onEachFabric(t, func(t *testing.T, _, host string) {
		l := kit.Must((&msg.ListenConfig{Config: msg.Config{Window: 8}}).Listen(t.Context(), host+":0"))(t)
		kit.CloseLater(t, l)
		p := kit.Start(t, kit.Child("msg mirror", l.Addr().String()))
		c := kit.Must(l.Accept(withPatience(t)))(t)
		kit.OK(t, p.Process.Signal(syscall.SIGSTOP))
		ctx, cancel := context.WithCancel(t.Context())
		sent, stuck := 0, make(chan error, 1)
		go func() {
			for {
				if err := c.Send(ctx, []byte(strconv.Itoa(sent))); err != nil {
					stuck <- err
					return
				}
				sent++
			}
		}()
		kit.Until(t, "a Send that waits for credit", func() bool { return kit.Parked("(*Conn).sendBuffer") })
		cancel()
		if err := <-stuck; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		kit.OK(t, p.Process.Signal(syscall.SIGCONT))
		for i := range sent {
			if got := string(recvMsg(t, c)); got != strconv.Itoa(i) {
				t.Errorf("message %d is %q", i, got)
			}
		}
		kit.OK(t, c.Close())
		p.Finish(t)
	})
}

// msgMirror sends back each message.
func msgMirror(args []string) error {
	ctx := context.Background()
	c, err := (&msg.Dialer{Config: msg.Config{Window: 8}}).Dial(ctx, args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		m, err := c.Recv(ctx)
		if err != nil {
			return nil
		}
		if err := c.Send(ctx, m.Bytes()); err != nil {
			return err
		}
		m.Release()
	}
}

// TestCycles connects, talks and closes, again and again, sixteen connections at a time.
// GOVERBS_CYCLES says how often, on each transport and in each way. Neither here nor in the
// kernel is anything left.
func TestCycles(t *testing.T) {
	kit.Only612(t)
	onEachFabric(t, func(t *testing.T, link, host string) {
		for _, k := range talks(t, link) {
			t.Run(k.name, func(t *testing.T) {
				cycle := func() error {
					ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
					defer cancel()
					a, b, err := k.meet(ctx, netip.Addr{}, host+":0")
					if err != nil {
						return err
					}
					return errors.Join(swap(ctx, a, b, "text 000"), bothEnd(a, b))
				}
				// A leak grows with each round. Other memory of the guest, and the kernel's
				// caches, do not.
				const most, rounds = 3 << 20, 4
				for i := range rounds {
					before := kernelMemory(t)
					conntest.Cycles(t, 16, cycle)
					more := kernelMemory(t) - before
					if t.Logf("the kernel has %d bytes more", more); more <= most { // 3,400 leave at most one third
						return
					}
					if i == rounds-1 {
						t.Errorf("each of %d rounds leaves more than %d bytes", rounds, most)
					}
				}
			})
		}
	})
}

// kernelMemory is how many bytes of objects the kernel has.
func kernelMemory(t *testing.T) int64 {
	t.Helper()
	for line := range strings.Lines(string(kit.Must(os.ReadFile("/proc/meminfo"))(t))) {
		if text, found := strings.CutPrefix(line, "SUnreclaim:"); found {
			var kB int64
			kit.Must(fmt.Sscan(text, &kB))(t)
			return kB << 10
		}
	}
	t.Fatal("no SUnreclaim in /proc/meminfo")
	return 0
}
