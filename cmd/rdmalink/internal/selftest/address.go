package selftest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/goverbs/goverbs/rdmacm"
)

// byAddress connects by rdma_cm.
func byAddress(b *bed) (string, error) {
	if !b.addr.IsValid() {
		return "", none("the port's network device has no IP address here")
	}
	device, err := b.reach(b.addr)
	if err == nil && device != b.dev.Info().Name {
		err = fmt.Errorf("%v leads to %s", b.addr, device)
	}
	return fmt.Sprintf("connected to %v and closed", b.addr), err
}

// reach connects an address to itself. It says which device that leads to.
func (b *bed) reach(addr netip.Addr) (device string, err error) {
	l, err := rdmacm.Listen(netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err == nil {
			<-c.Done()
			err = c.Close()
		}
		accepted <- err
	}()
	d := rdmacm.Dialer{LocalAddr: netip.AddrPortFrom(addr, 0)}
	c, err := d.Dial(ctx, l.Addr().String())
	if err != nil {
		cancel()
		<-accepted
		return "", errors.Join(err, l.Close())
	}
	device = c.Device().Info().Name
	return device, errors.Join(c.Close(), <-accepted, l.Close())
}
