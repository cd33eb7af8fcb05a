package msg

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// A host may dial many times at once: none of its connections fails. Each has its message echoed.
func TestBurst(t *testing.T) {
	const dials = 300
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Hosts: make([]rdmatest.HostOptions, 2)})
				l, err := (&ListenConfig{Config: small}).Listen(t.Context(), f.Host(0).Addr()+":0")
				if err != nil {
					t.Fatal(err)
				}
				ctx := f.Host(1).Context(context.Background())
				echo := func(c *Conn, answers bool) {
					if !answers {
						if err := c.Send(ctx, []byte("x")); err != nil {
							t.Error(err)
						}
					}
					m, err := c.Recv(ctx)
					if err == nil && answers {
						err = c.Send(ctx, m.Bytes())
					}
					if err != nil {
						t.Error(err)
						return
					}
					m.Release()
					_ = c.Close()
				}
				var all sync.WaitGroup
				for range dials {
					all.Go(func() {
						c, err := (&Dialer{Config: small}).Dial(ctx, l.Addr().String())
						if err != nil {
							t.Error(err)
							return
						}
						echo(c, false)
					})
				}
				for range dials {
					c, err := l.Accept(ctx)
					if err != nil {
						t.Fatal(err)
					}
					all.Go(func() { echo(c, true) })
					time.Sleep(time.Millisecond)
				}
				all.Wait()
				_ = l.Close()
			})
		})
	}
}
