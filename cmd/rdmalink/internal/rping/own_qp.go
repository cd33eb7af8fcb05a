package rping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// ownConn is a connection whose queue pair the ID does not manage: ownConn creates the
// queue pair and changes its states. It has an event channel of its own.
type ownConn struct {
	channel *rdmacm.EventChannel
	id      *rdmacm.ID
	addr    *rdmacm.Addr
	dev     *uverbs.Device
	verbs   *uverbs.Endpoint
	qp      *uverbs.QP

	done    chan struct{}
	err     error // read it after done
	watch   sync.WaitGroup
	unwatch context.CancelFunc
}

func newOwnConn() (*ownConn, error) {
	ch, err := rdmacm.NewEventChannel()
	if err != nil {
		return nil, err
	}
	return &ownConn{channel: ch, done: make(chan struct{}), unwatch: func() {}}, nil
}

func (c *ownConn) LocalAddr() netip.AddrPort  { return c.addr.Local }
func (c *ownConn) RemoteAddr() netip.AddrPort { return c.addr.Remote }
func (c *ownConn) Device() *uverbs.Device     { return c.dev }
func (c *ownConn) PD() *uverbs.PD             { return c.verbs.PD }
func (c *ownConn) QP() *uverbs.QP             { return c.qp }
func (c *ownConn) SendCQ() *uverbs.CQ         { return c.qp.SendCQ() }
func (c *ownConn) RecvCQ() *uverbs.CQ         { return c.qp.RecvCQ() }
func (c *ownConn) Own(io.Closer)              {} // the Endpoint closes all objects that were created on it
func (c *ownConn) Done() <-chan struct{}      { return c.done }

func (c *ownConn) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// make creates the queue pair on the ID's device, and moves it to INIT.
func (c *ownConn) make() (err error) {
	if c.addr, err = c.id.QueryAddr(); err != nil {
		return err
	}
	if c.dev, err = uverbs.OpenIndex(c.addr.DeviceIndex, c.addr.NodeGUID); err != nil {
		return err
	}
	c.verbs, err = c.dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: int(queues.MaxSendWR), RecvCQEntries: int(queues.MaxRecvWR)})
	if err != nil {
		return err
	}
	if c.qp, err = c.verbs.CreateQP(&uverbs.QPOptions{Cap: queues}); err != nil {
		return err
	}
	return c.move(verbs.QPStateInit)
}

// move changes the state of the queue pair, with the attributes that the kernel
// provides. Over iWARP, the kernel makes all transitions after INIT.
func (c *ownConn) move(states ...verbs.QPState) error {
	for _, state := range states {
		attr, mask, err := c.id.InitQPAttr(state)
		if err == nil {
			err = c.qp.Modify(attr, mask)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *ownConn) iWARP() bool { return c.dev.Info().NodeType == verbs.NodeRNIC }

// want waits for the next event, which must be of the given type.
func (c *ownConn) want(ctx context.Context, typ rdmacm.EventType) error {
	ev, err := c.channel.Get(ctx)
	if err != nil {
		return err
	}
	ev.Ack()
	switch {
	case ev.Err != nil:
		return fmt.Errorf("wait for %v: %w", typ, ev.Err)
	case ev.Type == rdmacm.EventDisconnected && typ != rdmacm.EventDisconnected:
		return fmt.Errorf("wait for %v: %w", typ, rdmacm.ErrDisconnected)
	case ev.Type != typ:
		return fmt.Errorf("%v came instead of %v", ev.Type, typ)
	}
	return nil
}

// established starts to watch for the end of the connection.
func (c *ownConn) established() {
	ctx, cancel := context.WithCancel(context.Background())
	c.unwatch = cancel
	c.watch.Go(func() {
		err := c.want(ctx, rdmacm.EventDisconnected)
		if ctx.Err() != nil {
			return
		}
		if c.err = err; err == nil {
			c.err = rdmacm.ErrDisconnected
		}
		close(c.done)
		c.fail()
		_ = c.id.Disconnect() // over iWARP the kernel has
	})
}

// fail flushes the posted work requests.
func (c *ownConn) fail() {
	_ = c.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState)
}

// Close disconnects and frees all.
func (c *ownConn) Close() error {
	c.unwatch()
	c.watch.Wait()
	var errs []error
	if c.qp != nil {
		c.fail()
		_ = c.id.Disconnect() // the peer may have
	}
	if c.verbs != nil {
		errs = append(errs, c.verbs.Close())
	}
	if c.dev != nil {
		errs = append(errs, c.dev.Close())
	}
	if c.id != nil {
		if err := c.id.Close(); !errors.Is(err, verbs.ErrClosed) { // a Connect that was cancelled has
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, c.channel.Close())...)
}

// resolveLimit is the time for the kernel to resolve an address or a route.
const resolveLimit = 2 * time.Second

// ownParam returns the set of parameters that either side sends the other.
func ownParam(c *ownConn) *rdmacm.ConnParam {
	return &rdmacm.ConnParam{QPN: c.qp.QPN(), ResponderResources: 1, InitiatorDepth: 1}
}

// dialOwn dials without an rdmacm.Conn.
func (e *end) dialOwn(ctx context.Context, address string, source netip.AddrPort) error {
	dst, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return err
	}
	to := netip.AddrPortFrom(dst.AddrPort().Addr().Unmap(), dst.AddrPort().Port())
	c, err := newOwnConn()
	if err != nil {
		return err
	}
	if err := c.dial(ctx, e, to, source); err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

// resolve creates the ID, finds the address and the route to dst, and creates the queue pair.
func (c *ownConn) resolve(ctx context.Context, dst, source netip.AddrPort) (err error) {
	if c.id, err = c.channel.NewID(verbs.PortSpaceTCP, 0); err != nil {
		return err
	}
	if err := c.id.ResolveAddr(source, dst, resolveLimit); err != nil {
		return err
	}
	if err := c.want(ctx, rdmacm.EventAddrResolved); err != nil {
		return err
	}
	if err := c.id.ResolveRoute(resolveLimit); err != nil {
		return err
	}
	if err := c.want(ctx, rdmacm.EventRouteResolved); err != nil {
		return err
	}
	return c.make()
}

func (c *ownConn) dial(ctx context.Context, e *end, dst, source netip.AddrPort) error {
	if err := c.resolve(ctx, dst, source); err != nil {
		return err
	}
	if err := e.prepare(c); err != nil {
		return err
	}
	if err := c.id.Connect(ctx, ownParam(c)); err != nil {
		return err
	}
	if err := c.confirm(ctx); err != nil {
		return err
	}
	c.established()
	return nil
}

// confirm waits for the server's answer and completes the connection.
func (c *ownConn) confirm(ctx context.Context) error {
	if c.iWARP() {
		return c.want(ctx, rdmacm.EventEstablished)
	}
	if err := c.want(ctx, rdmacm.EventConnectResponse); err != nil {
		return err
	}
	if err := c.move(verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS); err != nil {
		return err
	}
	return c.id.Establish()
}

// accept lets a client in.
func (c *ownConn) accept(ctx context.Context, e *end) error {
	if err := c.make(); err != nil {
		return err
	}
	if err := e.prepare(c); err != nil {
		return err
	}
	if !c.iWARP() {
		if err := c.move(verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS); err != nil {
			return err
		}
	}
	if err := c.id.Accept(ownParam(c)); err != nil {
		return err
	}
	if err := c.want(ctx, rdmacm.EventEstablished); err != nil {
		return err
	}
	c.established()
	return nil
}

// ownListener is a listener call by call: an ID an address family.
type ownListener struct {
	channel *rdmacm.EventChannel
	ids     []*rdmacm.ID
}

func listenOwn(ctx context.Context, address string) (listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	hosts := []string{host}
	if host == "" {
		hosts = []string{"0.0.0.0", "::"}
	}
	channel, err := rdmacm.NewEventChannel()
	if err != nil {
		return nil, err
	}
	l := &ownListener{channel: channel}
	for _, host := range hosts {
		to, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, port))
		if err == nil {
			err = l.listen(to.AddrPort())
		}
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

func (l *ownListener) listen(addr netip.AddrPort) error {
	id, err := l.channel.NewID(verbs.PortSpaceTCP, 0)
	if err != nil {
		return err
	}
	l.ids = append(l.ids, id)
	if err := id.SetAFOnly(true); err != nil {
		return err
	}
	if err := id.Bind(netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())); err != nil {
		return err
	}
	return id.Listen(0)
}

// Next gives the ID of each client a channel of its own.
func (l *ownListener) Next(ctx context.Context) (*request, error) {
	ev, err := l.channel.Get(ctx)
	if err != nil {
		return nil, errors.Join(err, net.ErrClosed)
	}
	ev.Ack()
	if ev.Type != rdmacm.EventConnectRequest {
		return nil, errors.Join(fmt.Errorf("the listener ended: %v", ev.Type), net.ErrClosed)
	}
	c, err := newOwnConn()
	if err == nil {
		err = ev.ID.Migrate(c.channel)
	}
	if err != nil {
		return nil, errors.Join(err, ev.ID.Reject(nil), ev.ID.Close())
	}
	c.id = ev.ID
	reject := func() error { return errors.Join(c.id.Reject(nil), c.Close()) }
	addr, err := ev.ID.QueryAddr()
	if err != nil {
		return nil, errors.Join(err, reject())
	}
	accept := func(ctx context.Context, e *end) error {
		err := c.accept(ctx, e)
		if err != nil {
			_ = c.id.Reject(nil) // too late if the peer has its answer
			err = errors.Join(err, c.Close())
		}
		return err
	}
	return &request{from: addr.Remote, accept: accept, reject: reject}, nil
}

// Close stops listening. A second call does nothing.
func (l *ownListener) Close() (err error) {
	for _, id := range l.ids {
		err = errors.Join(err, id.Close())
	}
	if l.ids != nil {
		err = errors.Join(err, l.channel.Close())
	}
	l.ids = nil
	return err
}
