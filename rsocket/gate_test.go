package rsocket

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// TestBubble: in a bubble, calls of one kind stand behind each other while the one in front
// waits for a slow network, and the bubble's time goes on.
func TestBubble(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.SIW} {
		t.Run(kind.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { beside(t, kind) }) })
	}
}

func beside(t *testing.T, kind rdmatest.Kind) {
	const calls, size = 4, 1 << 20
	f := newFabric(t, kind)
	a, b := f.pair(Sizes{})
	f.SetLatency(time.Second)
	var all, readers sync.WaitGroup
	var mu sync.Mutex
	got := 0
	sent := bytes.Repeat([]byte{7}, size)
	for range calls {
		all.Go(func() {
			if n, err := a.Write(sent); n != size || err != nil {
				t.Error(n, err)
			}
		})
		readers.Go(func() {
			n, err := io.Copy(io.Discard, struct{ io.Reader }{b})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got += int(n)
		})
	}
	all.Wait()
	errs := make([]error, calls)
	for i := range errs {
		all.Go(func() { errs[i] = a.Close() })
	}
	all.Wait()
	readers.Wait()
	if err := errors.Join(append(errs, b.Close())...); err != nil {
		t.Error(err)
	}
	if got != calls*size {
		t.Errorf("%d bytes arrived of %d", got, calls*size)
	}
}
