package mlx5

import (
	"testing"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

// The device finds by itself what is posted to a receive queue in the error state.
func TestFlushUnasked(t *testing.T) {
	w := newWorld(t, nil)
	w.kqp.Break()
	for id := range uint64(3) {
		w.postRecv(t, verbs.RecvWR{WRID: id})
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			if wcs := w.poll(t); len(wcs) > 0 {
				if wcs[0].WRID != id || wcs[0].Status != verbs.StatusWRFlushErr {
					t.Errorf("%+v", wcs)
				}
				break
			}
			if time.Since(start) > time.Minute {
				t.Fatal("the receive is not flushed")
			}
		}
	}
}
