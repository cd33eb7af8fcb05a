package valkeyrdma

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"

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
	// default is 128.
	Backlog int
}

// Listener accepts connections. It is a [net.Listener].
type Listener struct {
	ln  *rdmacm.Listener
	cfg Config // with defaults

	mu      sync.Mutex // guards the fields below
	pending map[*rdmacm.Conn]*Conn
	closed  bool
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
	l := &Listener{cfg: cfg, pending: make(map[*rdmacm.Conn]*Conn)}
	cm := rdmacm.ListenConfig{Config: cfg.rdmacm(l.prepare), Resolver: lc.Resolver, Backlog: lc.Backlog}
	if l.ln, err = cm.Listen(ctx, address); err != nil {
		return nil, opError("listen", netip.AddrPort{}, netip.AddrPort{}, err)
	}
	return l, nil
}

// prepare creates the connection that Accept returns.
func (l *Listener) prepare(rc *rdmacm.Conn) error {
	c := newConn()
	l.mu.Lock()
	l.pending[rc] = c
	l.mu.Unlock()
	rc.Own(&entry{l, rc})
	return c.verbs.prepare(rc, &l.cfg)
}

// entry is a connection in Listener.pending.
type entry struct {
	l  *Listener
	rc *rdmacm.Conn
}

// Close removes the entry.
func (e *entry) Close() error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	delete(e.l.pending, e.rc)
	return nil
}

// Accept waits for a peer and returns the connection, a *Conn. It ignores peers that leave before the connection is
// established, as over TCP.
//
// Errors are of type *net.OpError. If the error matches net.ErrClosed, the listener has been closed.
// All other errors concern one peer, and the next call may succeed. An example is that this machine
// ran out of descriptors or of memory to pin. The Temporary method of such an error returns true.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		rc, err := l.ln.Accept(context.Background())
		switch {
		case err == nil:
			return l.begin(rc), nil
		case errors.Is(err, net.ErrClosed):
			return nil, l.fail("accept", err)
		case !netconn.IsPeerFault(err, ErrProtocol):
			return nil, l.fail("accept", netconn.Temporary(err))
		}
	}
}

func (l *Listener) begin(rc *rdmacm.Conn) *Conn {
	l.mu.Lock()
	c := l.pending[rc]
	delete(l.pending, rc)
	l.mu.Unlock()
	c.begin(rc, &l.cfg, false)
	return c
}

// Close stops listening and ends blocked calls of Accept. It does not affect connections that Accept
// has returned. A second Close returns an error that matches net.ErrClosed.
func (l *Listener) Close() error {
	if l == nil {
		return os.ErrInvalid
	}
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return l.fail("close", net.ErrClosed)
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
