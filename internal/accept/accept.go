// Package accept is the listener beneath those of packages msg, rsocket and valkeyrdma.
package accept

import (
	"context"
	"net/netip"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
)

// Listener accepts connections of the connection manager, or those over streams. One of the fields is nil.
type Listener struct {
	CM   *rdmacm.Listener
	Over *oob.Listener
}

// Accept waits for a connection.
func (l *Listener) Accept(ctx context.Context) (conn.Conn, error) {
	if l.Over != nil {
		return l.Over.Accept(ctx)
	}
	return l.CM.Accept(ctx)
}

// Addr returns the address listened on. For streams, it is that of the net.Listener if it has an IP address, and
// invalid otherwise.
func (l *Listener) Addr() netip.AddrPort {
	if l.Over == nil {
		return l.CM.Addr()
	}
	at, _ := netip.ParseAddrPort(l.Over.Addr().String())
	return at
}

// Close stops listening.
func (l *Listener) Close() error {
	if l.Over != nil {
		return l.Over.Close()
	}
	return l.CM.Close()
}

// Stats returns the listener's counts. One of streams has none.
func (l *Listener) Stats() rdmacm.ListenerStats {
	if l.Over != nil {
		return rdmacm.ListenerStats{}
	}
	return l.CM.Stats()
}
