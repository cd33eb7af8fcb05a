package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/verbs"
)

// ListenConfig listens with options. The zero value is valid. [Listen] uses it. Negative numbers
// and durations are errors.
type ListenConfig struct {
	// Config describes the connections that [Listener.Accept] returns. With QP.Type UD,
	// the Listener is a datagram service.
	Config

	// Resolver looks up names. Nil stands for net.DefaultResolver.
	Resolver *net.Resolver

	// Backlog is how many connect requests may wait in a Listener. A request that waits has
	// no queue pair yet, and takes a few kilobytes. If there are more, the newest one of the
	// address with the most is rejected. Zero stands for 4096.
	//
	// Listener.Accept carries out as many handshakes at a time, but at most 128. One address
	// may have a quarter of them, but no fewer than 8.
	//
	// The kernel has a limit too, net.rdma_ucm.max_backlog (1024), for requests that arrive
	// while this process does not run. It drops those beyond, which InfiniBand and RoCE
	// send again, and iWARP rejects. A dial over iWARP waits a fixed time for the answer, 10 seconds over siw
	// and 20 over erdma (MPAREQ_TIMEOUT in the kernel), so it fails with ETIMEDOUT if a burst takes the
	// listener longer. Package redial repeats such dials.
	Backlog int

	// AcceptTimeout bounds how long Listener.Accept spends on one peer, from its request to its
	// confirmation. Zero stands for 30 seconds. Request.Accept takes a context instead.
	AcceptTimeout time.Duration

	// ConfirmTimeout bounds how long Listener.Accept waits for a peer's confirmation, the
	// third message of a handshake. A kernel repeats a lost message after 4 seconds. While
	// other peers wait for a place, only a tenth of ConfirmTimeout is guaranteed. Zero
	// stands for 10 seconds.
	ConfirmTimeout time.Duration
}

// The defaults.
const (
	defaultBacklog        = 4096 // as net.core.somaxconn
	defaultAcceptTimeout  = 30 * time.Second
	defaultConfirmTimeout = 10 * time.Second
)

// withDefaults returns a copy in which defaults replace zeros, or an error if a field is
// invalid.
func (lc *ListenConfig) withDefaults(address string) (*ListenConfig, error) {
	const op = "listen"
	if err := lc.Config.check(op, address); err != nil {
		return nil, err
	}
	if err := notNegative(op, address, option{"ListenConfig.Backlog", int64(lc.Backlog)}, option{"ListenConfig.AcceptTimeout", int64(lc.AcceptTimeout)},
		option{"ListenConfig.ConfirmTimeout", int64(lc.ConfirmTimeout)}); err != nil {
		return nil, err
	}
	settings := *lc
	settings.Config = lc.Config.withDefaults()
	setDefault(&settings.Resolver, net.DefaultResolver)
	setDefault(&settings.Backlog, defaultBacklog)
	setDefault(&settings.AcceptTimeout, defaultAcceptTimeout)
	setDefault(&settings.ConfirmTimeout, defaultConfirmTimeout)
	return &settings, nil
}

// Listener receives connect requests. Its methods may be called concurrently.
type Listener struct {
	hub     *hub
	cfg     *ListenConfig // with defaults
	ids     []*ID         // one for each address family
	addr    netip.AddrPort
	backlog *backlog
	done    chan struct{}
	endOnce sync.Once
	endErr  error // set before done is closed
	closing sync.Mutex
	closed  bool

	refusals chan struct{} // holds a token for each refusal under way
	refusing sync.WaitGroup
}

// mostRefusals is how many requests a listener refuses at a time.
const mostRefusals = 16

// Listen listens on an address with the defaults of [ListenConfig]. See [ListenConfig.Listen].
func Listen(ctx context.Context, address string) (*Listener, error) {
	return new(ListenConfig).Listen(ctx, address)
}

// Listen listens on an address such as "10.0.0.1:7471" or "[fe80::1%eth0]:7471", or on all
// addresses of both families of all RDMA devices, ":7471". With port 0 the kernel chooses
// the port. ctx bounds the lookup of a name, and does not affect the Listener. Later changes
// to lc do not affect the Listener either.
//
// With Config.QP.Type UD the Listener receives lookups of a datagram service, in a port
// space of its own.
//
// The address must belong to an interface with an RDMA link.
func (lc *ListenConfig) Listen(ctx context.Context, address string) (*Listener, error) {
	settings, err := lc.withDefaults(address)
	if err != nil {
		return nil, err
	}
	addrs, err := listenAddrs(ctx, settings.Resolver, address)
	if err != nil {
		return nil, atAddress("listen", address, err)
	}
	h, err := newHub(kernel.Owner(addrs[0].Addr()))
	if err != nil {
		return nil, err
	}
	l := &Listener{hub: h, cfg: settings, done: make(chan struct{}), refusals: make(chan struct{}, mostRefusals)}
	l.backlog = newBacklog(settings, l.greet)
	l.backlog.settle = h.settle
	if err := l.listen(addrs); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// listenAddrs returns the address to listen on or, if there is no host in it, the wildcard
// addresses of both families.
func listenAddrs(ctx context.Context, resolver *net.Resolver, address string) ([]netip.AddrPort, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host == "" {
		address = "0.0.0.0" + address
	}
	addrs, err := lookup(ctx, resolver, address)
	if err != nil {
		return nil, err
	}
	addrs = addrs[:1]
	if host == "" {
		addrs = append(addrs, netip.AddrPortFrom(netip.IPv6Unspecified(), addrs[0].Port()))
	}
	return addrs, nil
}

// portTries is how many ports, chosen by the kernel, a listener tries. The kernel chooses a port
// that is free in rdma_cm. iWARP also listens with TCP, on every device, and a closed TCP
// connection may still occupy the port.
const portTries = 10

func (l *Listener) listen(addrs []netip.AddrPort) (err error) {
	for range portTries {
		if err = l.listenOnce(addrs); addrs[0].Port() != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		for _, id := range l.ids {
			_ = id.Close()
		}
		l.ids = nil
	}
	return err
}

// listenOnce listens with one ID for each address family. An IPv6 wildcard that includes IPv4 would
// receive requests for whose addresses the kernel finds no device.
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
	if err = id.SetAFOnly(true); err == nil && l.cfg.TOS != 0 {
		err = id.SetTOS(l.cfg.TOS)
	}
	if err == nil {
		if err = id.Bind(addr); err == nil {
			err = id.Listen(l.cfg.Backlog)
		}
	}
	if err != nil {
		_ = id.Close()
		return nil, listenError(addr, err)
	}
	l.ids = append(l.ids, id)
	return id, nil
}

// listenError explains that the kernel listens on a loopback address with each iWARP device of the
// machine, and that TCP gives the address only to the first one.
func listenError(addr netip.AddrPort, err error) error {
	err = attemptError("listen", addr, err)
	if e, ok := err.(*verbs.Error); ok && addr.Addr().IsLoopback() && errors.Is(err, syscall.EADDRINUSE) {
		e.Hint = "another listener has that port; or there are several iWARP devices, which can't share a loopback address: " +
			"listen on another address, or on all"
	}
	return err
}

func noIPv6(err error) bool {
	return errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// Addr returns the address that the Listener listens on, with the port that the kernel chose. If it
// listens on both address families, Addr returns the IPv4 address.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Next waits for a connect request, which the caller accepts or rejects. If ctx ends, it returns an
// error that matches ctx.Err().
//
// An error that matches net.ErrClosed means that the listener has ended. Either Close was called, or
// the error also matches the cause, such as ErrDeviceRemoved; close the listener then. Any other
// error concerns one peer and is a [verbs.Error] whose Temporary method returns true. The listener
// continues after it.
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
		if err := l.await(ctx, "wait for a connect request at", changed, 0); err != nil {
			return nil, err
		}
	}
}

// event implements sink. It runs on the hub's goroutine.
func (l *Listener) event(ev *Event) {
	switch ev.Type {
	case EventConnectRequest:
		l.hub.hold() // for the request
		var p pendingRequest
		if p.r, p.err = l.request(ev); p.err == nil {
			p.from = p.r.RemoteAddr.Addr().Unmap()
		}
		if r := l.backlog.add(p); r != nil {
			l.refuseLater(r)
		}
	case EventDeviceRemoval:
		l.broken(ErrDeviceRemoved)
	}
}

func (l *Listener) failing(error) {}

func (l *Listener) tryRun(func()) bool { return false }

// broken ends the listener without Close. Loops that call Accept end too.
func (l *Listener) broken(cause error) {
	l.end(&verbs.Error{Op: "accept at", Object: l.addr.String(), Err: fmt.Errorf("%w: %w", net.ErrClosed, cause)})
}

func (l *Listener) end(err error) {
	l.endOnce.Do(func() {
		l.endErr = err
		close(l.done)
	})
}

// refuse frees the ID of a request that no caller will see. The kernel rejects the request then, unless it has been
// rejected with a reason. The listener itself still holds the hub, so refuse may run on the hub's goroutine.
func (l *Listener) refuse(id *ID) {
	_ = id.Close()
	_ = l.hub.release()
}

// refuseLater rejects a request on another goroutine, because the hub has to deliver other events meanwhile: a flood
// of requests must not delay the requests and connections of others. If many refusals are under way, it waits. Events
// then remain with the kernel, whose backlog limits them.
func (l *Listener) refuseLater(r *Request) {
	l.refusals <- struct{}{}
	l.refusing.Go(func() {
		r.reject(RejectBusy)
		l.cfg.Trace.refused(r.LocalAddr, r.RemoteAddr, ErrBusy)
		l.refuse(r.id)
		<-l.refusals
	})
}

// Close stops listening, rejects the waiting requests with the reason RejectClosing, and closes the connections that
// Accept has not returned yet. It does not affect connections from Accept and requests from Next. A second Close
// returns an error that matches net.ErrClosed.
func (l *Listener) Close() error {
	if l == nil {
		return closeNil("Listener")
	}
	l.closing.Lock()
	defer l.closing.Unlock()
	if l.closed {
		return &verbs.Error{Op: "close listener", Object: l.addr.String(), Err: net.ErrClosed}
	}
	l.closed = true
	l.end(&verbs.Error{Op: "accept at", Object: l.addr.String(), Err: net.ErrClosed})
	var errs []error
	for _, id := range l.ids {
		errs = append(errs, id.Close())
	}
	// The IDs are gone, so no more requests will arrive.
	left, err := l.backlog.end()
	for _, p := range left {
		if p.r != nil {
			p.r.reject(RejectClosing)
			l.cfg.Trace.refused(p.r.LocalAddr, p.r.RemoteAddr, net.ErrClosed)
			l.refuse(p.r.id)
		}
	}
	l.refusing.Wait()
	return errors.Join(append(errs, err, l.hub.release())...)
}

// Format implements [fmt.Formatter]. It prints the address.
func (l *Listener) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "rdmacm listener at %v", l.Addr()) }
