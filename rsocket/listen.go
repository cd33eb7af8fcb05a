package rsocket

import (
	"context"
	"net"
	"net/netip"
	"os"

	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/rdmacm"
)

// ListenConfig listens with options. The zero value is valid. [Listen] uses it.
type ListenConfig struct {
	// Config describes the connections that [Listener.Accept] returns.
	Config

	// Resolver looks up names. Nil stands for net.DefaultResolver.
	Resolver *net.Resolver

	// Backlog is how many connections may be set up at a time, or wait for Accept. Zero
	// stands for 128.
	Backlog int
}

// Listener accepts connections. It is a [net.Listener].
type Listener struct {
	ln  *netconn.Listener[*Conn]
	cfg Config // with defaults
}

// Listen listens on an address with the defaults of [ListenConfig]. See [ListenConfig.Listen].
func Listen(address string) (*Listener, error) {
	return new(ListenConfig).Listen(context.Background(), address)
}

// Listen listens on an address such as "10.0.0.1:7471", or on all addresses of both families
// of all RDMA devices, ":7471". With port 0 the kernel chooses the port. ctx bounds the
// lookup of a name, and does not affect the Listener. Errors are of type *net.OpError.
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

// prepare creates the connection that Accept returns. It refuses peers that do not speak rsocket.
func (l *Listener) prepare(rc *rdmacm.Conn) error {
	if _, err := parseHello(rc.PrivateData()); err != nil {
		return err
	}
	c := newConn()
	l.ln.Add(rc, c)
	if err := c.verbs.prepare(rc, &l.cfg); err != nil {
		return err
	}
	rc.SetPrivateData(c.verbs.hello(&l.cfg).marshal())
	return nil
}

// Accept waits for a peer and returns the connection, a *Conn. As over TCP, Accept returns no
// error for peers that leave before the connection is established. It also refuses peers that do
// not speak rsocket without an error.
//
// Errors are of type *net.OpError. One that matches net.ErrClosed means that the listener has
// ended. All others are temporary, as the Temporary method of *net.OpError reports: this
// machine could not serve one peer, for instance because it ran out of descriptors or of memory
// to pin. The next call may succeed. Peers that arrive at a device that cannot serve them are refused, and only the
// first such error is returned.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.ln.Accept(func(rc *rdmacm.Conn, c *Conn) error {
		peer, _ := parseHello(rc.PrivateData()) // prepare has checked it
		c.begin(rc, peer, &l.cfg, false)
		return nil
	})
	if err != nil {
		return nil, l.fail("accept", err)
	}
	return c, nil
}

// Close stops listening, and ends an Accept that waits. It does not affect connections from
// Accept. A second Close returns an error that matches net.ErrClosed.
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

// Addr returns the address listened on, an [Addr] with the port that the kernel chose.
func (l *Listener) Addr() net.Addr { return Addr{l.ln.Addr()} }
