package valkeyrdma

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/rdmacm"
)

// ListenConfig holds options for listening. The zero value has the defaults, with which [Listen]
// listens.
type ListenConfig struct {
	// Config configures the connections that [Listener.Accept] returns.
	Config

	// Resolver looks up names. If it is nil, net.DefaultResolver is used.
	Resolver *net.Resolver

	// Backlog is the maximum number of dials that wait for Accept. If there are more, the newest one
	// of the address with the most is rejected as busy: see rdmacm.ListenConfig.Backlog. The default
	// is 4096. At most 128 connections are set up at a time. Such a connection pins 36 KiB, so that
	// peers which do not complete theirs pin 4.5 MiB at most. A peer for which there is no memory to
	// pin is refused or, if that is found once it has connected, disconnected.
	Backlog int
}

// Listener accepts connections. It is a [net.Listener].
type Listener struct{ ln netconn.Listener[*Conn] }

// Listen listens on an address with the default options. See [ListenConfig.Listen].
func Listen(ctx context.Context, address string) (*Listener, error) {
	return new(ListenConfig).Listen(ctx, address)
}

// Listen listens on an address such as "10.0.0.1:6379". ":6379" means all addresses of all RDMA
// devices, of both families. With port 0 the kernel chooses the port. ctx limits the lookup of a
// name. It does not affect the Listener. Errors are of type *net.OpError.
func (lc *ListenConfig) Listen(ctx context.Context, address string) (*Listener, error) {
	cfg, err := lc.Config.withDefaults()
	if err != nil {
		return nil, netconn.OpError(protocol, "listen", netip.AddrPort{}, netip.AddrPort{}, err)
	}
	l := &Listener{netconn.Listener[*Conn]{Network: protocol, Violation: ErrProtocol, Conn: func(c *Conn) *netconn.Conn { return &c.conn },
		Prepare: func(rc conn.Conn, add func(*Conn)) error {
			c := newConn(&cfg)
			add(c)
			return c.prepare(rc)
		},
		Begin: func(rc conn.Conn, c *Conn) error { return c.begin(rc, false) }}}
	cm := rdmacm.ListenConfig{Config: cfg.rdmacm(), Resolver: lc.Resolver, Backlog: lc.Backlog}
	if err := l.ln.Listen(ctx, &cm, address); err != nil {
		return nil, err
	}
	return l, nil
}

// Accept is [Listener.AcceptConn] without a context, as [net.Listener] has it. The connection is a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	return netconn.AsNetConn(l.AcceptConn(context.Background()))
}

// AcceptConn waits for a peer and returns the connection. It ignores peers that leave before the connection is
// established, as over TCP.
//
// Errors are of type *net.OpError. If the error matches net.ErrClosed, the listener has been closed, and if it
// matches ctx.Err(), ctx has ended. All other errors concern one peer, and the next call may succeed. An example is
// that this machine ran out of descriptors or of memory to pin. The Temporary method of such an error returns true.
// Peers that arrive at a device which cannot serve them are refused, and only the first such error is returned.
func (l *Listener) AcceptConn(ctx context.Context) (*Conn, error) { return l.ln.Accept(ctx) }

// Close stops listening and ends blocked calls of Accept. It does not affect connections that Accept
// has returned. A second Close returns an error that matches net.ErrClosed.
func (l *Listener) Close() error {
	if l == nil {
		return netconn.CloseNil("listener")
	}
	return l.ln.Close()
}

// Shutdown stops listening, and waits until all connections from Accept are closed and have delivered their data. It
// does not close them: the program does, as http.Server's Shutdown for example. It may be called after Close. If ctx
// ends first, it returns an error that matches ctx.Err().
func (l *Listener) Shutdown(ctx context.Context) error { return l.ln.Shutdown(ctx) }

// Addr returns the listener's address, an [Addr]. If the kernel chose the port, the address has that port.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Format implements [fmt.Formatter]. It prints the address.
func (l *Listener) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "valkeyrdma listener at %v", l.Addr()) }

// Stats returns the Listener's counts.
func (l *Listener) Stats() rdmacm.ListenerStats { return l.ln.Stats() }
