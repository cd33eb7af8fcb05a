package rsocket

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// A host may dial many times at once: none of its connections fails. Each has its byte echoed.
func TestBurst(t *testing.T) {
	const dials = 300
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Hosts: make([]rdmatest.HostOptions, 2)})
				small := Config{SendBuffer: 4096, RecvBuffer: 4096, SendQueue: 16, RecvQueue: 16} // for the test's speed
				l, err := (&ListenConfig{Config: small}).Listen(t.Context(), f.Host(0).Addr()+":0")
				if err != nil {
					t.Fatal(err)
				}
				ctx := f.Host(1).Context(context.Background())
				var all sync.WaitGroup
				for range dials {
					all.Go(func() {
						c, err := (&Dialer{Config: small}).DialContext(ctx, "rsocket", l.Addr().String())
						if err != nil {
							t.Error(err)
							return
						}
						if _, err = c.Write([]byte("x")); err == nil {
							_, err = io.ReadFull(c, make([]byte, 1))
						}
						if err != nil {
							t.Error(err)
						}
						_ = c.Close()
					})
				}
				for range dials {
					c, err := l.Accept()
					if err != nil {
						t.Fatal(err)
					}
					all.Go(func() {
						_, _ = io.Copy(c, c)
						_ = c.Close()
					})
					time.Sleep(time.Millisecond)
				}
				all.Wait()
				_ = l.Close()
			})
		})
	}
}
