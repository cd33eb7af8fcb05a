//go:build vm

package test

import (
	"io"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rsocket"
)

// TestRsocketCloseSlow: over a slow network, Close loses nothing that was written, though the
// peer answers while it reads.
func TestRsocketCloseSlow(t *testing.T) {
	only612(t)
	fabric(t)
	noLeak(t)
	t.Cleanup(func() { sh(t, "tc qdisc del dev lo root") })
	sh(t, "tc qdisc add dev lo root netem limit 100000 delay 1ms rate 40mbit")
	const size = 1 << 19
	for range 3 {
		l := must(rsocketListen(dummyIPv4, "0"))(t)
		sent := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				if _, err = c.Write(make([]byte, size)); err == nil {
					err = c.Close()
				}
			}
			sent <- err
		}()
		d := rsocket.Dialer{Timeout: patience}
		c := must(d.Dial(t.Context(), l.Addr().String()))(t)
		ok(t, c.SetDeadline(time.Now().Add(patience)))
		got, err := io.Copy(io.Discard, struct{ io.Reader }{c})
		if got != size || err != nil {
			t.Errorf("%d bytes of %d arrived: %v", got, size, err)
		}
		ok(t, <-sent)
		ok(t, c.Close())
		ok(t, l.Close())
	}
}
