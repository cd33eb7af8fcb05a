package msg

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// TestStats checks that a connection and its pool count small and large messages and registered bytes.
func TestStats(t *testing.T) {
	onFabrics(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		a, b := connect(t, &cfg)
		before := a.Stats().RegisteredBytes
		r, err := a.Register(make([]byte, 5000), 0)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			for range 100 {
				m, err := b.Recv(t.Context())
				if err != nil {
					done <- err
					return
				}
				m.Release()
			}
			done <- b.Send(t.Context(), []byte("end"))
		}()
		for i := range 100 {
			size := 10
			if i == 50 {
				size = 4000 // read by the peer
			}
			if err := a.Send(t.Context(), make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		}
		m, err := a.Recv(t.Context())
		if err := errors.Join(err, <-done); err != nil {
			t.Fatal(err)
		}
		held := a.Stats().MessagesHeld
		m.Release()
		sa, sb := a.Stats(), b.Stats()
		if held != 1 || sa.MessagesHeld != 0 || sb.MessagesHeld != 0 {
			t.Errorf("held %d, then %d; the peer %d", held, sa.MessagesHeld, sb.MessagesHeld)
		}
		if sa.MessagesSent != 100 || sb.MessagesReceived != 100 || sa.BytesSent != 4990 || sb.BytesReceived != 4990 || sa.MessagesReceived != 1 || sb.BytesSent != 3 {
			t.Errorf("%+v, %+v", sa, sb)
		}
		if sa.Failed != nil || sb.Failed != nil || before == 0 {
			t.Errorf("%+v, %+v", sa, sb)
		}
		p := cfg.Pool
		if p == nil {
			if sa.RegisteredBytes < before+5000 {
				t.Errorf("%+v, %+v", sa, sb)
			}
			return
		}
		all := p.Stats()
		if all.Conns != 2 || all.MessagesSent != 101 || all.BytesReceived != 4993 || all.RegisteredBytes < sa.RegisteredBytes+5000 {
			t.Errorf("%+v", all)
		}
		bothClose(t, a, b)
		if all = p.Stats(); all.Conns != 0 || all.MessagesSent != 101 || all.RegisteredBytes != 5000 {
			t.Errorf("%+v", all)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestStatsFail checks that completions with an error are counted by their status.
func TestStatsFail(t *testing.T) {
	w, a := hostile(t)
	w.cut()
	w.settle()
	if s := a.Stats(); s.Failed[verbs.StatusWRFlushErr] == 0 {
		t.Errorf("%+v", s)
	}
}
