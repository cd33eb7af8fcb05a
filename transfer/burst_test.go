package transfer

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/rdmatest"
)

// TestBurst checks that more peers than a server connects at a time may open it at once, though it drops streams.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, rdmatest.DeviceOptions{Kind: rdmatest.RXE}, 1, 1)
		client := w.engine(0, "", nil)
		w.engine(1, "server", nil)
		gate := make(chan struct{})
		w.gate = gate
		var all sync.WaitGroup
		peers, errs := make([]*Peer, 3*maxPending), make([]error, 3*maxPending)
		for i := range peers {
			all.Go(func() { peers[i], errs[i] = client.Open(t.Context(), "server") })
		}
		synctest.Wait()
		close(gate)
		all.Wait()
		failures := 0
		for i, p := range peers {
			if errs[i] != nil {
				failures++
				continue
			}
			closeLater(t, p)
		}
		if failures > 0 {
			t.Errorf("%d of %d failed: %v", failures, len(peers), errors.Join(errs...))
		}
	})
}
