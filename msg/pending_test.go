package msg

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// closedMemory calls closed when it is closed.
type closedMemory struct {
	memory
	closed func()
}

func (m *closedMemory) Close() error {
	m.closed()
	return m.memory.Close()
}

// TestPendingEnd checks that a connection that will not be returned leaves its pool at some point of
// its Close, so the pool waits for it. After end, no connection is set up.
func TestPendingEnd(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f, cfg := newFabric(t, kind), small
			cfg.Pool = newPool(t, f, 4)
			l := listen(t, &cfg)
			accepted := acceptOne(t, l)
			s, err := cfg.shape()
			if err != nil {
				t.Fatal(err)
			}
			made, leaving := pendingConns{shape: s}, false
			settings := made.config()
			settings.PrepareQP = func(cm *rdmacm.Conn, o *uverbs.QPOptions) error {
				err := made.begin(cm, o)
				c := made.made[cm]
				m, addErr := c.heap.add(make([]byte, 8), 0)
				delete(c.heap.all, m)
				c.heap.all[&closedMemory{m, func() { made.end(); leaving = c.abandoned }}] = 1
				return errors.Join(err, addErr)
			}
			cm, err := (&rdmacm.Dialer{Config: *settings}).Dial(t.Context(), l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if err := cm.Close(); err != nil || !leaving {
				t.Error("leaving:", leaving, err)
			}
			<-accepted
			accepted = acceptOne(t, l)
			if _, err := (&rdmacm.Dialer{Config: *made.config()}).Dial(t.Context(), l.Addr().String()); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			<-accepted
		})
	}
}

// TestPendingClosedEarly checks that a pool delivers a connection before Accept returns it, and the
// program may close it. Accept returns it all the same. A connection that was not delivered, or could
// not be accepted, is removed.
func TestPendingClosedEarly(t *testing.T) {
	f, cfg := newFabric(t, rdmatest.SIW), small
	cfg.Pool = newPool(t, f, 4)
	shape, err := cfg.shape()
	if err != nil {
		t.Fatal(err)
	}
	made := pendingConns{shape: shape, accepts: true}
	l, err := (&rdmacm.ListenConfig{Config: *made.config()}).Listen(t.Context(), anyPort)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, l)
	// early is a connection of a client that has gone, which the program has closed.
	early := func() (*rdmacm.Conn, *Conn) {
		accepted := make(chan *rdmacm.Conn, 1)
		go func() {
			cm, err := l.Accept(t.Context())
			if err != nil {
				t.Error(err)
			}
			accepted <- cm
		}()
		dialled, err := (&Dialer{Config: small}).Dial(t.Context(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		cm := <-accepted // which a close before would have failed
		if err := dialled.Close(); err != nil {
			t.Error(err)
		}
		c, _, err := cfg.Pool.Recv(t.Context())
		if err != io.EOF {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		return cm, c
	}
	cm, c := early()
	if got := made.take(cm); got != c {
		t.Errorf("%p, want %p", got, c)
	}
	cm, _ = early()
	made.sweep()
	if got := made.take(cm); got != nil || len(made.made) > 0 {
		t.Error(got, made.made)
	}
}
