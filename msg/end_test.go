package msg

import (
	"errors"
	"net"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// A connection whose queue pair goes without completing what was posted ends all the
// same: every call that waits returns.
func TestEndWithoutCompletions(t *testing.T) {
	onFabrics(t, func(t *testing.T, f *rdmatest.Fabric, cfg Config) {
		a, b := connect(t, &cfg)
		theirs, ours := readable(t, a, b)
		stuck, resume := f.Pause()
		defer resume()
		waits := make(chan error, 2)
		go func() { waits <- a.Read(t.Context(), ours.Span(0, 8), theirs.Remote(), 0) }()
		go func() { _, err := a.Recv(t.Context()); waits <- err }()
		<-stuck
		if err := a.CM().Close(); err != nil { // beneath the Conn
			t.Error(err)
		}
		for range 2 {
			if err := <-waits; !errors.Is(err, net.ErrClosed) && !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
		}
	})
}

// The peer goes while calls are being made. Each ends, whenever it was begun.
func TestEndUnderCalls(t *testing.T) {
	onFabrics(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		for range 20 {
			l, err := (&ListenConfig{Config: cfg}).Listen(t.Context(), anyPort)
			if err != nil {
				t.Fatal(err)
			}
			a, b, err1, err2 := meet(t, l, &cfg)
			if err := errors.Join(err1, err2, l.Close()); err != nil {
				t.Fatal(err)
			}
			ends := make(chan error, 3)
			for range 2 {
				go func() {
					for {
						if err := a.Send(t.Context(), []byte("and so on")); err != nil {
							ends <- err
							return
						}
					}
				}()
			}
			go func() { _, err := a.Recv(t.Context()); ends <- err }()
			m, err := b.Recv(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			m.Release()
			if err := b.CM().Close(); err != nil {
				t.Error(err)
			}
			for range 3 {
				var status verbs.Status
				if err := <-ends; !errors.Is(err, rdmacm.ErrDisconnected) && !errors.As(err, &status) {
					t.Error(err)
				}
			}
			bothFree(t, a, b)
		}
	})
}
