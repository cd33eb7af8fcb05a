package valkeyrdma

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// TestConn: a connection is a net.Conn, also with the least buffers.
func TestConn(t *testing.T) {
	for _, kind := range kinds {
		for name, cfg := range map[string]Config{"default": {}, "least": {SendBuffer: leastBuffer, RecvBuffer: leastBuffer}} {
			t.Run(kind.String()+" "+name, func(t *testing.T) {
				f := newFabric(t, kind)
				cfg.KeepAlive = -1
				nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
					a, b, err := f.pipe(cfg)
					return a, b, func() { a.Close(); b.Close() }, err
				})
			})
		}
	}
}
