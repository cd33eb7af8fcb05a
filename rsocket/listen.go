package rsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
)

// ListenConfig listens with options. The zero value is valid. [Listen] uses it.
type ListenConfig struct {
	// Config describes the connections that [Listener.Accept] returns.
	Config

	// Resolver looks up names. Nil stands for net.DefaultResolver.
	Resolver *net.Resolver

	// Backlog is how many dials may wait for Accept. If there are more, the newest one of the
	// address with the most is rejected as busy, and repeats itself: see
	// rdmacm.ListenConfig.Backlog. At most 128 connections are set up at a time. Each pins its
	// buffers already, because the peer may write at once: 32 MiB together with the default
	// Config. Zero stands for 4096.
	Backlog int
}

// Listener accepts connections. It is a [net.Listener].
type Listener struct{ ln netconn.Listener[*Conn] }

// Listen listens on an address with the defaults of [ListenConfig]. See [ListenConfig.Listen].
func Listen(ctx context.Context, address string) (*Listener, error) {
	return new(ListenConfig).Listen(ctx, address)
}

// Listen listens on an address such as "10.0.0.1:7471", or on all addresses of both families
// of all RDMA devices, ":7471". With port 0 the kernel chooses the port. ctx bounds the
// lookup of a name, and does not affect the Listener. Errors are of type *net.OpError.
func (lc *ListenConfig) Listen(ctx context.Context, address string) (*Listener, error) {
	cfg, err := lc.Config.withDefaults()
	if err != nil {
		return nil, netconn.OpError(protocol, "listen", netip.AddrPort{}, netip.AddrPort{}, err)
	}
	l := newListener(&cfg)
	cm := rdmacm.ListenConfig{Config: cfg.rdmacm(), Resolver: lc.Resolver, Backlog: lc.Backlog}
	if err := l.ln.Listen(ctx, &cm, address); err != nil {
		return nil, err
	}
	return l, nil
}

// ListenOver accepts connections over the streams of l, such as TCP or TLS connections. It needs no connection manager.
// Resolver and Backlog have no meaning. over sets the protection domain, the device's port and the GID, and its
// Authorize decides who may connect. ListenOver ignores over's PrivateData, Prepare, PrepareQP, QP, RecvCQEntries and
// TransportOptions. RetryCount must not be negative. The Listener owns l. Errors are of type *net.OpError. See
// [oob.Listen].
func (lc *ListenConfig) ListenOver(l net.Listener, over *oob.Config) (*Listener, error) {
	cfg, err := lc.Config.withDefaults()
	if err != nil {
		return nil, netconn.OpError(protocol, "listen", netip.AddrPort{}, netip.AddrPort{}, errors.Join(err, l.Close()))
	}
	made := newListener(&cfg)
	if err := made.ln.ListenOver(l, cfg.oob(over)); err != nil {
		return nil, err
	}
	return made, nil
}

func newListener(cfg *Config) *Listener {
	return &Listener{netconn.Listener[*Conn]{Network: protocol, Violation: ErrProtocol, Conn: func(c *Conn) *netconn.Conn { return &c.conn },
		Prepare: func(rc conn.Conn, add func(*Conn)) error {
			if _, err := parseHello(rc.PrivateData()); err != nil {
				return fmt.Errorf("%w: %w", rdmacm.ErrOtherProtocol, err)
			}
			c := newConn()
			add(c)
			return c.prepare(rc, cfg)
		},
		Begin: func(rc conn.Conn, c *Conn) error {
			peer, _ := parseHello(rc.PrivateData()) // Prepare has checked it
			c.begin(rc, peer, cfg, false)
			return nil
		}}}
}

// Accept is [Listener.AcceptConn] without a context, as [net.Listener] has it. The connection is a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	return netconn.AsNetConn(l.AcceptConn(context.Background()))
}

// AcceptConn waits for a peer and returns the connection. As over TCP, it returns no error for
// peers that leave before the connection is established. It also refuses peers that do not
// speak rsocket without an error.
//
// Errors are of type *net.OpError. One that matches net.ErrClosed means that the listener has
// ended, and one that matches ctx.Err() that ctx has. All others are temporary, as the Temporary
// method of *net.OpError reports: this machine could not serve one peer, for instance because it
// ran out of descriptors or of memory to pin. The next call may succeed. Peers that arrive at a
// device that cannot serve them are refused, and only the first such error is returned.
func (l *Listener) AcceptConn(ctx context.Context) (*Conn, error) { return l.ln.Accept(ctx) }

// Close stops listening, and ends an Accept that waits. It does not affect connections from
// Accept. A second Close returns an error that matches net.ErrClosed.
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

// Addr returns the address listened on, an [Addr] with the port that the kernel chose. For streams, it is that of the
// net.Listener.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Format implements [fmt.Formatter]. It prints the address.
func (l *Listener) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "rsocket listener at %v", l.Addr()) }

// Stats returns the Listener's counts. A Listener over streams has none.
func (l *Listener) Stats() rdmacm.ListenerStats { return l.ln.Stats() }
