//go:build vm

package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/test/kit"
)

// TestRsocketKilled checks that a C peer that is killed in the middle is a broken connection, and not the end of its
// data.
func TestRsocketKilled(t *testing.T) {
	kit.Only612(t)
	eachRsocketHost(t, func(t *testing.T, host string) {
		var c net.Conn
		var server *kit.Process
		notEarly(t, func() (err error) {
			server = kit.Start(t, exec.Command("rstream", "-T", "b", "-I", "1000000", "-C", "1", "-S", "64", "-b", host))
			kit.Until(t, "listening", func() bool { return kit.ListeningCM(t, server.Process.Pid, "7471") })
			if c, err = tryStream(host, rsocket.Config{}); err == nil {
				err = (rstreamRun{rounds: 5, count: 1, size: 64}).run(c, true)
			}
			return failedWith(err, server.Cmd, c)
		})
		kit.OK(t, server.Process.Kill())
		var op *net.OpError
		if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) || !errors.As(err, &op) {
			t.Errorf("%d, %v", n, err)
		}
		if _, err := c.Write(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestRsocketStranger checks that a peer that connects and does not speak rsocket is refused, and those that do are let
// in all the same.
func TestRsocketStranger(t *testing.T) {
	eachRsocketHost(t, func(t *testing.T, host string) {
		l := listenRsocket(t, host)
		at := l.Addr().(rsocket.Addr).AddrPort()
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		for _, private := range [][]byte{nil, []byte("hello")} {
			if _, err := (&rdmacm.Dialer{Config: rdmacm.Config{PrivateData: private}}).Dial(t.Context(), at.String()); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%q: %v", private, err)
			}
		}
		c := dialStream(t, host, portOf(l))
		kit.Must(c.Write([]byte("hello")))(t)
		peer := <-accepted
		kit.OK(t, c.Close())
		if got := kit.Must(io.ReadAll(peer))(t); string(got) != "hello" {
			t.Errorf("%q", got)
		}
		kit.OK(t, peer.Close())
	})
}

// TestRsocketAbandoned checks that programs that give up their dials, each at another moment of the
// handshake, end no listener. It leaves siw out, because such dials kill Linux 6.12 now and then
// (docs/kernel-bugs.md); TestAcceptAbandoned of package rsocket has it on a model.
func TestRsocketAbandoned(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	eachHost(t, []string{kit.RxeIPv4, kit.RxeIPv6}, func(t *testing.T, host string) {
		l := listenRsocket(t, host)
		ended := make(chan error, 1)
		var accepted atomic.Int32
		go func() {
			for {
				c, err := l.Accept()
				var op *net.OpError
				switch {
				case err == nil:
					accepted.Add(1)
					_ = c.Close()
				case errors.Is(err, net.ErrClosed):
					ended <- nil
					return
				case !errors.As(err, &op) || !op.Temporary():
					ended <- err
					return
				default:
					t.Logf("temporary: %v", err)
				}
			}
		}()
		left := 0
		for i := range 40 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*400*time.Microsecond)
			c, err := rsocket.Dial(ctx, l.Addr().String())
			if cancel(); err == nil {
				kit.OK(t, c.Close())
			} else {
				left++
			}
		}
		c := dialStream(t, host, portOf(l))
		if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Error(n, err)
		}
		kit.OK(t, c.Close())
		kit.OK(t, l.Close())
		kit.OK(t, <-ended)
		t.Logf("%d dials given up, %d connections accepted", left, accepted.Load())
	})
}

func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// TestRsocketSlowReader checks that a writer is held up by a reader that does not read, wakes when its deadline comes,
// and ends well: all that Write took arrives after Close.
func TestRsocketSlowReader(t *testing.T) {
	kit.Only612(t)
	eachRsocketHost(t, func(t *testing.T, host string) {
		a, b, stop, err := streams(host)
		kit.OK(t, err)
		defer stop()
		var n int
		written := make(chan error)
		go func() {
			var err error
			n, err = a.Write(make([]byte, 1<<20))
			written <- err
		}()
		kit.Must(b.Read(make([]byte, 1)))(t) // so much has been written
		kit.OK(t, a.SetWriteDeadline(time.Now()))
		err = <-written
		var timeout net.Error
		if n == 0 || n == 1<<20 || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%d bytes, %v", n, err)
		}
		closed := make(chan error, 1)
		go func() { closed <- a.Close() }()
		if got := kit.Must(io.ReadAll(b))(t); len(got) != n-1 {
			t.Errorf("%d of %d bytes arrived", 1+len(got), n)
		}
		kit.OK(t, <-closed)
	})
}

// TestRsocketAllocs checks that a round trip allocates nothing at either end.
func TestRsocketAllocs(t *testing.T) {
	kit.Only612(t)
	eachRsocketHost(t, func(t *testing.T, host string) {
		a, b, stop, err := streams(host)
		kit.OK(t, err)
		defer stop()
		echoed := make(chan struct{})
		go func() {
			defer close(echoed)
			buf := make([]byte, 64)
			for {
				n, err := b.Read(buf)
				if err != nil {
					return
				}
				if _, err := b.Write(buf[:n]); err != nil {
					t.Error(err)
				}
			}
		}()
		buf := make([]byte, 64)
		round := func() {
			kit.Must(a.Write(buf))(t)
			kit.Must(io.ReadFull(a, buf))(t)
		}
		for range 100 {
			round()
		}
		if n := testing.AllocsPerRun(100, round); n != 0 {
			t.Error(n, "allocations a round trip")
		}
		kit.OK(t, a.Close())
		<-echoed
	})
}

// TestRsocketCloseAtOnce checks that written bytes arrive although the writer closes at once, time after time.
func TestRsocketCloseAtOnce(t *testing.T) {
	kit.Only612(t)
	eachRsocketHost(t, func(t *testing.T, host string) {
		l := listenRsocket(t, host)
		const times = 20
		got := make(chan int, times)
		go func() {
			for range times {
				c, err := l.Accept()
				if err != nil {
					t.Error(err)
					break
				}
				b, err := io.ReadAll(c)
				if err := errors.Join(err, c.Close()); err != nil {
					t.Error(err)
				}
				got <- len(b)
			}
			close(got)
		}()
		for i := range times {
			c := dialStream(t, host, portOf(l))
			sent := make([]byte, 1+i*500)
			kit.Must(c.Write(sent))(t)
			if err := c.Close(); err != nil {
				t.Errorf("connection %d: %v", i, err)
			}
			if n := <-got; n != len(sent) {
				t.Errorf("connection %d: %d of %d bytes", i, n, len(sent))
			}
		}
	})
}
