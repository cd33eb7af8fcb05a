package rsocket

import (
	"testing"

	"github.com/goverbs/goverbs/internal/conntest"
)

// TestStats checks that a connection counts what went through it, also after it has been closed.
func TestStats(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		c1, c2, stop, err := f.pipe(Config{SendBuffer: leastBuffer, RecvBuffer: leastBuffer})
		if err != nil {
			t.Fatal(err)
		}
		a := c1.(*Conn)
		conntest.Stats(t, a, c2.(*Conn))
		stop()
		if err := a.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if s := a.Stats(); s.RegisteredBytes != 0 || s.BytesReceived != 3 {
			t.Errorf("%+v", s)
		}
	})
}
