package rsocket

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/goverbs/goverbs/rdmatest"
)

// TestConn: a connection is a net.Conn, over both transports, also with the least queues
// and buffers.
func TestConn(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		for name, z := range map[string]Sizes{"default": {}, "least": {SendBuffer: leastBuffer, RecvBuffer: leastBuffer, SendQueue: leastQueue, RecvQueue: leastQueue}} {
			t.Run(kind.String()+" "+name, func(t *testing.T) {
				f := newFabric(t, kind)
				nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) { return f.pipe(z) })
			})
		}
	}
}
