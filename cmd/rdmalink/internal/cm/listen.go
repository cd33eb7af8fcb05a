package cm

import (
	"context"
	"errors"
	"net/netip"
	"syscall"

	"github.com/goverbs/goverbs/rdmacm"
)

// listen creates the listening IDs, one for each address family. It forwards their
// requests to request.
func (s *session) listen(ctx context.Context, c *channel, request func(*rdmacm.Event)) (ids []*rdmacm.ID, err error) {
	addrs, err := s.listenAddrs(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.request = request
	c.mu.Unlock()
	for i, addr := range addrs {
		id, err := s.listenOn(c, addr)
		switch {
		case err == nil:
			ids = append(ids, id)
		case i == 0 || !noIPv6(err):
			return nil, errors.Join(err, destroy(ids))
		}
	}
	return ids, nil
}

func (s *session) listenOn(c *channel, addr netip.AddrPort) (*rdmacm.ID, error) {
	id, err := c.NewID(s.portSpace, s.qpType)
	if err != nil {
		return nil, err
	}
	if err = id.SetAFOnly(true); err == nil {
		if err = id.Bind(addr); err == nil {
			err = id.Listen(0)
		}
	}
	if err != nil {
		return nil, errors.Join(err, id.Destroy())
	}
	return id, nil
}

// noIPv6 is how a kernel without IPv6 refuses its wildcard address.
func noIPv6(err error) bool {
	return errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

func destroy(ids []*rdmacm.ID) (err error) {
	for _, id := range ids {
		err = errors.Join(err, id.Destroy())
	}
	return err
}

// refuse rejects a peer that came too late, or for which the objects could not be
// created.
func refuse(id *rdmacm.ID) {
	_ = id.Reject(nil)
	_ = id.Destroy()
}
