package rsocket

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// Peers that die, idle or in the middle of what they send, and peers that the network loses
// end on the server, and others are served meanwhile.
func TestHostsVanish(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hostsVanish(t, kind) })
		})
	}
}

func hostsVanish(t *testing.T, kind rdmatest.Kind) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Hosts: make([]rdmatest.HostOptions, 4)})
	l, err := (&ListenConfig{Config: Config{MaxIdleTimeout: time.Second}}).Listen(t.Context(), f.Host(0).Addr()+":7471")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				t.Error(err)
				continue
			}
			served.Go(func() {
				_, _ = io.Copy(c, c)
				_ = c.(*Conn).Shutdown(context.Background())
			})
		}
	})
	echo := func(c net.Conn) error {
		_, err := c.Write([]byte("x"))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		return err
	}
	dial := func(host int) net.Conn {
		t.Helper()
		d := &Dialer{Config: Config{MaxIdleTimeout: -1}}
		c, err := d.DialContext(f.Host(host).Context(t.Context()), "rsocket", l.Addr().String())
		if err == nil {
			err = echo(c)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var lost []net.Conn
	for range 5 {
		lost = append(lost, dial(1), dial(2))
	}
	honest := dial(3)
	before := runtime.NumGoroutine()
	var sending sync.WaitGroup
	for _, c := range lost[:4] { // two of each host never read what comes back
		sending.Go(func() { _, _ = c.Write(make([]byte, 1<<20)) })
	}
	synctest.Wait()
	f.Host(1).Kill()
	heal := f.Partition(f.Host(0), f.Host(2))
	for range 60 {
		time.Sleep(time.Second)
		if err := echo(honest); err != nil {
			t.Fatal(err)
		}
	}
	const most = 2 * 6 // two connections
	if n := len(f.Host(0).Device(0).Objects()); n > most {
		t.Errorf("%d objects are left on the server: %q", n, f.Host(0).Device(0).Objects())
	}
	heal()
	for _, c := range append(lost, honest) {
		_ = c.(*Conn).SetLinger(0)
		_ = c.Close()
	}
	sending.Wait()
	_ = l.Close()
	served.Wait()
	time.Sleep(20 * time.Second)
	synctest.Wait()
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}
