package msg

import (
	"errors"
	"io"
	"testing"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// TestRemoved: all calls that wait say that the device was removed, whoever heard of it
// first. All that was on the device can still be closed.
func TestRemoved(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Run("alone", func(t *testing.T) { removed(t, newFabric(t, kind), small) })
			t.Run("pool", func(t *testing.T) {
				f, cfg := newFabric(t, kind), small
				dev, err := uverbs.Open(f.Host(0).Device(0).Name())
				if err != nil {
					t.Fatal(err)
				}
				if cfg.Pool, err = NewPool(dev, 4, &small); err != nil {
					t.Fatal(err)
				}
				removed(t, f, cfg)
				closeAll(t, cfg.Pool, dev)
			})
		})
	}
}

func removed(t *testing.T, f *rdmatest.Fabric, cfg Config) {
	l := listen(t, &cfg)
	a, b, err1, err2 := meet(t, l, &cfg)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	conntest.Removed(t, f.Host(0).Device(0),
		func() error { _, err := a.Recv(t.Context()); return err },
		func() error { _, err := b.Recv(t.Context()); return err },
		func() error { _, err := l.Accept(t.Context()); return err })
	closeAll(t, a, b)
}

func closeAll(t *testing.T, all ...io.Closer) {
	t.Helper()
	for _, c := range all {
		if err := c.Close(); err != nil {
			t.Errorf("%T: %v", c, err)
		}
	}
}
