package rping

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

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
		return nil, errors.Join(err, ev.ID.Reject(nil), ev.ID.Destroy())
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
		err = errors.Join(err, id.Destroy())
	}
	if l.ids != nil {
		err = errors.Join(err, l.channel.Close())
	}
	l.ids = nil
	return err
}
