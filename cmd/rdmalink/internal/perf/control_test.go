package perf

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
)

// A peer may have received the last message and left before this end sees the
// acknowledgement. Send returns no error then; Receive returns the error of a peer that
// left too soon.
func TestControlPeerLeaves(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
			ours := new(control)
			l, err := (&rdmacm.ListenConfig{Config: *ours.config()}).Listen(t.Context(), f.Host(0).Addr()+":0")
			if err != nil {
				t.Fatal(err)
			}
			accepted := make(chan error, 1)
			go func() { _, err := l.Accept(t.Context()); accepted <- err }()
			their := new(control)
			peer, err := (&rdmacm.Dialer{Config: *their.config()}).Dial(t.Context(), l.Addr().String())
			if err := errors.Join(err, <-accepted, l.Close()); err != nil {
				t.Fatal(err)
			}
			stuck, resume := f.Pause()
			defer resume()
			sent := make(chan error, 1)
			go func() { sent <- ours.Send(t.Context(), []byte("goodbye")) }()
			<-stuck
			if err := peer.Close(); err != nil {
				t.Error(err)
			}
			if err := <-sent; err != nil {
				t.Error(err)
			}
			if _, err := ours.Receive(t.Context(), make([]byte, 64)); !errors.Is(err, rdmacm.ErrDisconnected) {
				t.Error("after it:", err)
			}
			if err := ours.conn.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
