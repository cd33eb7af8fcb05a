package msg

import (
	"errors"
	"fmt"
	"testing"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestCycles connects, talks and closes, again and again, over each kind of device and in
// each way: no goroutine and no memory is left.
func TestCycles(t *testing.T) {
	onFabrics(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		l := listen(t, &cfg)
		conntest.Cycles(t, 1, func() error { return cycle(t, l, &cfg) })
	})
}

// cycle is the life of a connection.
func cycle(t *testing.T, l *Listener, cfg *Config) error {
	t.Helper()
	a, b, err1, err2 := meet(t, l, cfg)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, way := range [][2]*Conn{{a, b}, {b, a}} {
		if err := way[0].Send(t.Context(), []byte("hello")); err != nil {
			return err
		}
		m, err := way[1].Recv(t.Context())
		if err != nil || string(m.Bytes()) != "hello" {
			return fmt.Errorf("%v, %w", m, err)
		}
		m.Release()
	}
	bothClose(t, a, b)
	return nil
}
