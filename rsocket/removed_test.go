package rsocket

import (
	"testing"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestRemoved: all calls that wait say that the device was removed, whoever heard of it
// first.
func TestRemoved(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFabric(t, kind)
			a, b := f.pair(Sizes{})
			l, err := Listen("rsocket", fabricHost+":0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			conntest.Removed(t, f.Host(0).Device(0),
				func() error { _, err := a.Read(make([]byte, 1)); return err },
				func() error { _, err := b.Read(make([]byte, 1)); return err },
				func() error { _, err := l.Accept(); return err })
		})
	}
}
