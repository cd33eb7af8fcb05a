package msg

import (
	"errors"
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

// A connection that nobody will have leaves its pool at any moment of its own close, so the
// pool waits for it. Once nobody waits for connections, none is made.
func TestBirthsEnd(t *testing.T) {
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
			made, leaving := births{shape: s}, false
			settings := made.config()
			settings.PrepareQP = func(cm *rdmacm.Conn, o *uverbs.QPOptions) error {
				err := made.begin(cm, o)
				c := made.made[cm]
				m, addErr := c.heap.add(make([]byte, 8), 0)
				delete(c.heap.all, m)
				c.heap.all[&closedMemory{m, func() { made.end(); leaving = c.leaving }}] = struct{}{}
				return errors.Join(err, addErr)
			}
			cm, err := rdmacm.Dial(t.Context(), l.Addr().String(), settings)
			if err != nil {
				t.Fatal(err)
			}
			if err := cm.Close(); err != nil || !leaving {
				t.Error("leaving:", leaving, err)
			}
			<-accepted
			accepted = acceptOne(t, l)
			if _, err := rdmacm.Dial(t.Context(), l.Addr().String(), made.config()); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			<-accepted
		})
	}
}
