package valkeyrdma

import (
	"context"
	"net"
	"net/netip"
	"os"

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

	// Backlog is the maximum number of connections that are being set up or wait for Accept. The
	// default is 128. Accept allocates the buffers of a connection. Before that it pins 32 KiB, so
	// that peers which do not complete their connections pin 4 MiB at most.
	Backlog int
}

// Listener accepts connections. It is a [net.Listener].
type Listener struct {
	ln  *netconn.Listener[*Conn]
	cfg Config // with defaults
}

// Listen listens on an address with the default options. See [ListenConfig.Listen].
func Listen(address string) (*Listener, error) {
	return new(ListenConfig).Listen(context.Background(), address)
}

// Listen listens on an address such as "10.0.0.1:6379". ":6379" means all addresses of all RDMA
// devices, of both families. With port 0 the kernel chooses the port. ctx limits the lookup of a
// name. It does not affect the Listener. Errors are of type *net.OpError.
func (lc *ListenConfig) Listen(ctx context.Context, address string) (*Listener, error) {
	cfg, err := lc.Config.withDefaults()
	if err != nil {
		return nil, opError("listen", netip.AddrPort{}, netip.AddrPort{}, err)
	}
	l := &Listener{netconn.NewListener[*Conn](ErrProtocol), cfg}
	cm := rdmacm.ListenConfig{Config: cfg.rdmacm(l.prepare), Resolver: lc.Resolver, Backlog: lc.Backlog}
	if err := l.ln.Listen(ctx, &cm, address); err != nil {
		return nil, opError("listen", netip.AddrPort{}, netip.AddrPort{}, err)
	}
	return l, nil
}

// prepare creates the connection that Accept returns.
func (l *Listener) prepare(rc *rdmacm.Conn) error {
	c := newConn()
	l.ln.Add(rc, c)
	return c.verbs.prepare(rc)
}

// Accept waits for a peer and returns the connection, a *Conn. It ignores peers that leave before the connection is
// established, as over TCP.
//
// Errors are of type *net.OpError. If the error matches net.ErrClosed, the listener has been closed.
// All other errors concern one peer, and the next call may succeed. An example is that this machine
// ran out of descriptors or of memory to pin. The Temporary method of such an error returns true. Peers
// that arrive at a device which cannot serve them are refused, and only the first such error is returned.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.ln.Accept(func(rc *rdmacm.Conn, c *Conn) error { return c.begin(rc, &l.cfg, false) })
	if err != nil {
		return nil, l.fail("accept", err)
	}
	return c, nil
}

// Close stops listening and ends blocked calls of Accept. It does not affect connections that Accept
// has returned. A second Close returns an error that matches net.ErrClosed.
func (l *Listener) Close() error {
	if l == nil {
		return os.ErrInvalid
	}
	if err := l.ln.Close(); err != nil {
		return l.fail("close", err)
	}
	return nil
}

func (l *Listener) fail(op string, err error) error {
	return opError(op, l.ln.Addr(), netip.AddrPort{}, err)
}

// Addr returns the listener's address, an [Addr]. If the kernel chose the port, the address has that port.
func (l *Listener) Addr() net.Addr { return Addr{l.ln.Addr()} }
