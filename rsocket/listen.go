package rsocket

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// ListenConfig listens with options. The zero value will do.
type ListenConfig struct {
	// KeepAlive is the time between looks whether a peer is still there. Zero: 15
	// seconds. Negative: none.
	KeepAlive time.Duration
	// Backlog is how many peers may be let in at a time and wait for Accept. Zero:
	// 128.
	Backlog int
	// Sizes of each connection.
	Sizes Sizes
}

// Listener lets peers in. It is a [net.Listener].
type Listener struct {
	ln        *rdmacm.Listener
	sizes     Sizes
	keepAlive time.Duration

	mu     sync.Mutex // guards what follows
	made   map[*rdmacm.Conn]*Conn
	closed bool
}

// Listen listens on an address such as "10.0.0.1:7471", or on all addresses of all RDMA
// devices, ":7471". Port 0 lets the kernel choose.
func Listen(network, address string) (net.Listener, error) {
	return new(ListenConfig).Listen(context.Background(), network, address)
}

// Listen is [Listen] with options. The context bounds the look-up of a name. The listener
// is a *Listener.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	sizes, err := lc.Sizes.withDefaults()
	if err != nil {
		return nil, opError("listen", netip.AddrPort{}, netip.AddrPort{}, err)
	}
	at, err := listenAddress(ctx, network, address)
	if err != nil {
		return nil, opError("listen", netip.AddrPort{}, netip.AddrPort{}, err)
	}
	l := &Listener{sizes: sizes, keepAlive: keepAlive(lc.KeepAlive), made: make(map[*rdmacm.Conn]*Conn)}
	cfg := sizes.config()
	cfg.Backlog, cfg.Prepare = lc.Backlog, l.prepare
	if l.ln, err = rdmacm.Listen(at, &cfg); err != nil {
		return nil, opError("listen", netip.AddrPort{}, netip.AddrPort{}, err)
	}
	return l, nil
}

// listenAddress leaves an address without a host, or that of a family's wildcard, to the
// connection manager.
func listenAddress(ctx context.Context, network, address string) (string, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" {
		switch {
		case isFamily(network, "4"):
			address = "0.0.0.0:" + port
		case isFamily(network, "6"):
			address = "[::]:" + port
		default:
			_, err := resolve(ctx, network, address)
			return address, err
		}
	}
	addrs, err := resolve(ctx, network, address)
	if err != nil {
		return "", err
	}
	return addrs[0].String(), nil
}

func isFamily(net_, family string) bool { return net_ == network+family || net_ == "tcp"+family }

// prepare makes the connection that Accept returns. A stranger is refused.
func (l *Listener) prepare(rc *rdmacm.Conn) error {
	if _, err := parseHello(rc.PrivateData()); err != nil {
		return err
	}
	c := newConn()
	l.mu.Lock()
	l.made[rc] = c
	l.mu.Unlock()
	rc.Own(&entry{l, rc})
	if err := c.verbs.prepare(rc, &l.sizes); err != nil {
		return err
	}
	rc.SetPrivateData(c.verbs.hello(&l.sizes).marshal())
	return nil
}

// entry is a connection's place among those that are being made.
type entry struct {
	l  *Listener
	rc *rdmacm.Conn
}

// Close gives the place back.
func (e *entry) Close() error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	delete(e.l.made, e.rc)
	return nil
}

// Accept waits for a peer and returns the connection, a *Conn. Peers that do not speak
// rsocket or leave before the connection stands are refused without an error, as over TCP.
//
// Errors are of type *net.OpError. One that matches net.ErrClosed means that the listener has
// ended. All others are temporary, as Temporary of the *net.OpError reports: this machine
// could not serve one peer, because it ran out of memory to pin or of descriptors, for
// instance. The next call may succeed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		rc, err := l.ln.Accept(context.Background())
		switch {
		case err == nil:
			return l.begin(rc), nil
		case errors.Is(err, net.ErrClosed):
			return nil, l.fail("accept", err)
		case !isPeers(err):
			return nil, l.fail("accept", &acceptError{err})
		}
	}
}

// acceptError concerns one peer. Servers such as net/http's go on after it.
type acceptError struct{ error }

func (e *acceptError) Unwrap() error { return e.error }
func (*acceptError) Timeout() bool   { return false }
func (*acceptError) Temporary() bool { return true }

// isPeers reports whether an attempt to let a peer in failed because of what the peer is,
// sent or did. Such errors stay hidden: net/http waits up to a second after each temporary
// error, so peers that cause them would keep others out.
//
// Of the verbs, only those that fail when the peer leaves or sent wrong parameters count.
// Of the connection manager's commands and events all do, but for shortages of this machine.
func isPeers(err error) bool {
	if isAny(err, ErrProtocol, rdmacm.ErrDisconnected, syscall.ENOTCONN, syscall.ECONNRESET) {
		return true
	}
	var verb *uverbs.Error
	if errors.As(err, &verb) && verb.Op != "modify" {
		return false
	}
	return !isAny(err, rdmacm.ErrDeviceRemoved, verbs.ErrNotSupported, verbs.ErrNoProvider, syscall.EACCES, syscall.EPERM,
		syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ENOSPC)
}

func isAny(err error, causes ...error) bool {
	return slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
}

func (l *Listener) begin(rc *rdmacm.Conn) *Conn {
	l.mu.Lock()
	c := l.made[rc]
	delete(l.made, rc)
	l.mu.Unlock()
	peer, _ := parseHello(rc.PrivateData()) // prepare has checked it
	c.begin(rc, peer, &l.sizes, false, l.keepAlive)
	return c
}

// Close stops listening, and ends an Accept that waits. Connections from Accept stay as they
// are. A second Close returns an error that matches net.ErrClosed.
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

// Addr returns the address listened on, an [Addr] with the port that the kernel chose.
func (l *Listener) Addr() net.Addr { return Addr{l.ln.Addr()} }
