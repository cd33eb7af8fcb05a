package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/goverbs/goverbs/uverbs"
)

// Request is a peer's wish to connect. Exactly one of Accept and Reject has to
// be called, once.
type Request struct {
	// PrivateData is what the peer sent along; see Conn.PrivateData.
	PrivateData []byte
	// LocalAddr and RemoteAddr are the two ends.
	LocalAddr, RemoteAddr netip.AddrPort
	// DeviceIndex is the kernel's number of the RDMA device that the request
	// came in over, as uverbs.OpenIndex takes it, with the device's GUID: to choose a Config.PD.
	DeviceIndex uint32
	NodeGUID    uverbs.GUID

	hub      *hub
	id       *ID
	answered atomic.Bool
}

func (l *Listener) request(ev *Event) (*Request, error) {
	addr, err := ev.ID.QueryAddr()
	if err != nil {
		l.refuse(ev.ID)
		return nil, err
	}
	return &Request{
		PrivateData: ev.Param.PrivateData,
		LocalAddr:   addr.Local, RemoteAddr: addr.Remote,
		DeviceIndex: addr.DeviceIndex, NodeGUID: addr.NodeGUID,
		hub: l.hub, id: ev.ID,
	}, nil
}

// Accept makes a queue pair and connects it. It returns once the peer has
// confirmed, or with ctx.Err(). When it fails the peer has been rejected.
func (r *Request) Accept(ctx context.Context, cfg *Config) (*Conn, error) {
	if r.answered.Swap(true) {
		return nil, &OpError{Op: "accept", Object: r.RemoteAddr.String(), Err: net.ErrClosed}
	}
	c := newConn(r.hub)
	c.id, c.privateData = r.id, r.PrivateData
	c.link.add(r.hub.release)
	c.link.add(r.id.Destroy)
	r.id.setSink(c)
	settings := cfg.withDefaults()
	if err := c.accept(ctx, &settings); err != nil {
		return nil, c.abandon(ctx, "accept", r.RemoteAddr, err)
	}
	return c, nil
}

func (c *Conn) accept(ctx context.Context, cfg *Config) error {
	if err := c.prepare(cfg); err != nil {
		return err
	}
	if err := c.id.Accept(cfg.param()); err != nil {
		return err
	}
	if _, err := c.await(ctx, EventEstablished); err != nil {
		return err
	}
	return c.connected()
}

// Reject tells the peer no, with a word of explanation if private is not empty
// (at most 148 bytes on InfiniBand and RoCE, 255 on iWARP).
func (r *Request) Reject(private []byte) error {
	if r.answered.Swap(true) {
		return &OpError{Op: "reject", Object: r.RemoteAddr.String(), Err: net.ErrClosed}
	}
	return errors.Join(r.id.Reject(private), r.id.Destroy(), r.hub.release())
}
