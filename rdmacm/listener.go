package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/kernel"
)

// Listener takes connect requests. Its methods may be called concurrently.
type Listener struct {
	hub     *hub
	cfg     Config
	ids     []*ID // one an address family
	addr    netip.AddrPort
	backlog *backlog
	done    chan struct{}
	endOnce sync.Once
	endErr  error // set before done is closed
	closing sync.Mutex
	closed  bool
}

// Listen listens on an address such as "10.0.0.1:7471" or "[fe80::1%eth0]:7471",
// or on all addresses of both families of all RDMA devices, ":7471". Port 0
// lets the kernel choose. cfg serves Accept; later changes to it don't count.
//
// With Config.QP.Type UD it listens for those who look up a datagram service,
// in a port space of its own.
//
// An address must belong to an interface with an RDMA link.
func Listen(address string, cfg *Config) (*Listener, error) {
	if err := cfg.check("listen", address); err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &OpError{Op: "listen", Object: address, Err: err}
	}
	var addrs []netip.AddrPort
	if host == "" {
		address = "0.0.0.0" + address
	}
	settings := cfg.withDefaults()
	if addrs, err = lookup(context.Background(), settings.Resolver, address); err != nil {
		return nil, &OpError{Op: "listen", Object: address, Err: err}
	}
	addrs = addrs[:1]
	if host == "" {
		addrs = append(addrs, netip.AddrPortFrom(netip.IPv6Unspecified(), addrs[0].Port()))
	}
	h, err := newHub(kernel.Owner(addrs[0].Addr()))
	if err != nil {
		return nil, err
	}
	l := &Listener{hub: h, cfg: settings, done: make(chan struct{})}
	l.backlog = newBacklog(&l.cfg, l.greet)
	if err := l.listen(addrs); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// portTries is how many ports a listener tries that lets the kernel choose. The
// kernel's choice is free in rdma_cm; iWARP listens with TCP too, on every device, and
// there a connection that is over may have the port still.
const portTries = 10

func (l *Listener) listen(addrs []netip.AddrPort) (err error) {
	for range portTries {
		if err = l.listenOnce(addrs); addrs[0].Port() != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		for _, id := range l.ids {
			_ = id.Destroy()
		}
		l.ids = nil
	}
	return err
}

// listenOnce gives each family an ID of its own: an IPv6 wildcard that stands for
// IPv4 too gets requests whose addresses the kernel then finds no device for.
func (l *Listener) listenOnce(addrs []netip.AddrPort) error {
	for i, addr := range addrs {
		if i > 0 {
			addr = netip.AddrPortFrom(addr.Addr(), l.addr.Port())
		}
		id, err := l.listenOn(addr)
		switch {
		case err == nil && i == 0:
			bound, err := id.QueryAddr()
			if err != nil {
				return err
			}
			l.addr = bound.Local
		case err != nil && i > 0 && noIPv6(err):
		case err != nil:
			return err
		}
	}
	return nil
}

func (l *Listener) listenOn(addr netip.AddrPort) (*ID, error) {
	id, err := l.hub.newID(l, l.cfg.portSpace())
	if err != nil {
		return nil, err
	}
	if err = id.SetAFOnly(true); err == nil {
		if err = id.Bind(addr); err == nil {
			err = id.Listen(l.cfg.Backlog)
		}
	}
	if err != nil {
		_ = id.Destroy()
		return nil, listenError(addr, err)
	}
	l.ids = append(l.ids, id)
	return id, nil
}

// listenError knows that the kernel listens on a loopback address with each iWARP device
// of the machine, and that TCP gives the address to the first one only.
func listenError(addr netip.AddrPort, err error) error {
	err = attemptError("listen", addr, err)
	if e, ok := err.(*OpError); ok && addr.Addr().IsLoopback() && errors.Is(err, syscall.EADDRINUSE) {
		e.Hint = "another listener has that port; or there are several iWARP devices, which can't share a loopback address: " +
			"listen on another address, or on all"
	}
	return err
}

func noIPv6(err error) bool {
	e, ok := err.(*OpError)
	return ok && (e.Err == syscall.EAFNOSUPPORT || e.Err == syscall.EADDRNOTAVAIL)
}

// Addr is the address listened on, with the port that the kernel chose; for a
// listener on both families the IPv4 one.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Next waits for a connect request and leaves it to the caller to accept or to
// reject it. It returns ctx.Err() when ctx ends. An error that matches
// net.ErrClosed means that the listener has ended, by Close, or else by the cause
// that the error names and matches too, such as ErrDeviceRemoved; close it then. Any
// other error concerns one peer, and is an OpError that is Temporary: the listener
// goes on.
func (l *Listener) Next(ctx context.Context) (*Request, error) {
	for {
		select {
		case <-l.done:
			return nil, l.endErr
		default:
		}
		p, ok, changed := l.backlog.next()
		if ok {
			return p.r, onePeer(p.err)
		}
		if err := l.await(ctx, changed, 0); err != nil {
			return nil, err
		}
	}
}

// event runs on the hub's goroutine.
func (l *Listener) event(ev *Event) {
	switch ev.Type {
	case EventConnectRequest:
		l.hub.hold() // for the request
		var p pendingRequest
		if p.r, p.err = l.request(ev); p.err == nil {
			p.from = p.r.RemoteAddr.Addr().Unmap()
		}
		if r := l.backlog.add(p); r != nil {
			l.refuse(r.id)
		}
	case EventDeviceRemoval:
		l.broken(ErrDeviceRemoved)
	}
}

func (l *Listener) doomed(error) {}

func (l *Listener) take(func()) bool { return false }

func (l *Listener) broken(cause error) { l.end(&listenerEnd{cause}) }

func (l *Listener) end(err error) {
	l.endOnce.Do(func() {
		l.endErr = err
		close(l.done)
	})
}

// refuse gets rid of a request that nobody will see. The listener itself still
// holds the hub, so this may run on the hub's goroutine.
func (l *Listener) refuse(id *ID) {
	_ = id.Reject(nil)
	_ = id.Destroy()
	_ = l.hub.release()
}

// Close stops listening and rejects the requests that wait. Connections that
// nobody has taken with Accept are closed; those from Accept and requests from Next
// stay as they are. A second Close returns an error that matches net.ErrClosed.
func (l *Listener) Close() error {
	if l == nil {
		return closeNil("Listener")
	}
	l.closing.Lock()
	defer l.closing.Unlock()
	if l.closed {
		return &OpError{Op: "close listener", Object: l.addr.String(), Err: net.ErrClosed}
	}
	l.closed = true
	l.end(net.ErrClosed)
	var errs []error
	for _, id := range l.ids {
		errs = append(errs, id.Destroy())
	}
	// The IDs are gone, so no more requests come.
	left, err := l.backlog.end()
	for _, p := range left {
		if p.r != nil {
			l.refuse(p.r.id)
		}
	}
	return errors.Join(append(errs, err, l.hub.release())...)
}
