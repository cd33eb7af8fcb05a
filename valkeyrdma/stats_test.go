package valkeyrdma

import (
	"testing"

	"github.com/goverbs/goverbs/internal/conntest"
)

// TestStats checks that a connection counts what went through it, also after it has been closed.
func TestStats(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			a, b := newFabric(t, kind).pair(Config{SendBuffer: leastBuffer, RecvBuffer: leastBuffer})
			conntest.Stats(t, a, b)
			_ = b.Close()
			_ = a.Shutdown(t.Context())
			if s := a.Stats(); s.RegisteredBytes != 0 || s.BytesReceived != 3 {
				t.Errorf("%+v", s)
			}
		})
	}
}
