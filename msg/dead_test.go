package msg

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// TestDeadPeer checks that both ends notice that the network or the other machine is gone, over every
// transport, whether they write or not. The bubble's time is exact.
func TestDeadPeer(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		for name, cut := range map[string]func(f *rdmatest.Fabric){
			"partition": func(f *rdmatest.Fabric) { f.Partition(f.Host(0), f.Host(1)) },
			"link":      func(f *rdmatest.Fabric) { f.Host(0).Device(0).SetLink(false) },
			"killed":    func(f *rdmatest.Fabric) { f.Partition(f.Host(0), f.Host(1)); f.Host(0).Kill() },
		} {
			t.Run(kind.String()+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
					cfg := small
					cfg.MaxIdleTimeout = time.Second
					a, b := hostsMeet(t, f, cfg)
					time.Sleep(10 * time.Second) // the peer's machine answers
					for _, c := range []*Conn{a, b} {
						if err := c.Send(t.Context(), []byte("x")); err != nil {
							t.Fatal(err)
						}
					}
					for _, c := range []*Conn{a, b} {
						receiveOne(t, c, 1)
					}
					cut(f)
					var ends sync.WaitGroup
					for i, c := range []*Conn{a, b} {
						ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
						defer cancel()
						ends.Go(func() {
							if _, err := c.Recv(ctx); err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
								t.Errorf("end %d: %v", i, err)
							}
						})
						ends.Go(func() {
							for err := error(nil); err == nil; time.Sleep(time.Millisecond) {
								err = c.Send(ctx, []byte("x"))
							}
						})
					}
					ends.Wait()
					for _, c := range []*Conn{a, b} {
						_ = c.Close()
						_ = c.Shutdown(t.Context())
					}
				})
			})
		}
	}
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
	accepted, err = l.Accept(t.Context())
	if err := errors.Join(err, <-dial); err != nil {
		t.Fatal(err)
	}
	return dialled, accepted
}
