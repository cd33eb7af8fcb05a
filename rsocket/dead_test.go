package rsocket

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestDeadPeer checks that both ends notice that the network or the other machine is gone, over every
// transport, whether they write or not. The bubble's time is exact.
func TestDeadPeer(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		for name, cut := range map[string]func(f *rdmatest.Fabric){
			"partition":               func(f *rdmatest.Fabric) { f.Partition(f.Host(0), f.Host(1)) },
			"link":                    func(f *rdmatest.Fabric) { f.Host(0).Device(0).SetLink(false) },
			"partition over a stream": func(f *rdmatest.Fabric) { f.Partition(f.Host(0), f.Host(1)) },
			"killed":                  func(f *rdmatest.Fabric) { f.Partition(f.Host(0), f.Host(1)); f.Host(0).Kill() },
		} {
			t.Run(kind.String()+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
					meet := hostsMeet
					if strings.HasSuffix(name, "over a stream") {
						if kind == rdmatest.SIW || kind == rdmatest.ERDMA {
							return
						}
						meet = hostsMeetOver
					}
					a, b := meet(t, f, Config{MaxIdleTimeout: time.Second})
					time.Sleep(10 * time.Second) // the peer's machine answers
					for _, c := range []*Conn{a, b} {
						if n, err := c.Write([]byte("x")); n != 1 || err != nil {
							t.Fatal(err)
						}
					}
					for _, c := range []*Conn{a, b} {
						if n, err := c.Read(make([]byte, 1)); n > 1 || err != nil {
							t.Fatal(err)
						}
					}
					cut(f)
					var ends sync.WaitGroup
					for i, c := range []*Conn{a, b} {
						_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
						ends.Go(func() {
							if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) && (i == 1 || name != "killed") {
								t.Errorf("end %d: %v", i, err)
							}
						})
						ends.Go(func() { // small pieces, which TCP's buffer takes for long
							for err := error(nil); err == nil; time.Sleep(time.Millisecond) {
								_, err = c.Write([]byte("x"))
							}
						})
					}
					ends.Wait()
					for _, c := range []*Conn{a, b} {
						_ = c.Close()
						_, _ = c.conn.Freed(context.Background())
					}
					time.Sleep(2 * time.Second) // the streams wait for the peers' good-byes
				})
			})
		}
	}
}

// hostsMeetOver is hostsMeet over a stream, which does not break together with the network of the devices.
func hostsMeetOver(t *testing.T, f *rdmatest.Fabric, cfg Config) (dialled, accepted *Conn) {
	t.Helper()
	p := conntest.NewPipes()
	l, err := (&ListenConfig{Config: cfg}).ListenOver(p, &oob.Config{PD: conntest.OpenPD(t, f.Host(1).Device(0))})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	over := &oob.Config{PD: conntest.OpenPD(t, f.Host(0).Device(0))}
	dial := make(chan error, 1)
	go func() {
		var err error
		dialled, err = (&Dialer{Config: cfg}).DialOver(t.Context(), p.Dial(), over)
		dial <- err
	}()
	accepted, err = l.AcceptConn(t.Context())
	if err := errors.Join(err, <-dial); err != nil {
		t.Fatal(err)
	}
	return dialled, accepted
}

// hostsMeet connects the first host to the second.
func hostsMeet(t *testing.T, f *rdmatest.Fabric, cfg Config) (dialled, accepted *Conn) {
	t.Helper()
	l, err := (&ListenConfig{Config: cfg}).Listen(t.Context(), f.Host(1).Addr()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := make(chan error, 1)
	go func() {
		var err error
		dialled, err = (&Dialer{Config: cfg}).Dial(f.Host(0).Context(t.Context()), l.Addr().String())
		dial <- err
	}()
	accepted, err = l.AcceptConn(t.Context())
	if err := errors.Join(err, <-dial); err != nil {
		t.Fatal(err)
	}
	return dialled, accepted
}
