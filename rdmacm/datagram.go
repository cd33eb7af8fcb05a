package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Peer is a destination of datagrams. Its AH, QPN and QKey are those of a SendWR: AH, RemoteQPN and
// RemoteQKey.
type Peer struct {
	AH   *uverbs.AH
	QPN  uint32
	QKey uint32
	// PrivateData is the private data of the peer's answer. See [Conn.PrivateData]. A
	// multicast group has none.
	PrivateData []byte
}

// OpenUD creates a datagram queue pair at a local address of an RDMA device. Its Q_Key is [UDPQKey],
// which the connection manager gives to all datagram queue pairs. It can send to the peers that
// [Conn.Lookup] finds, receive from the peers that [Request.AcceptOn] answers, and take part in the
// groups of [Conn.JoinMulticast]. A Conn from Dial or Accept whose Config.QP.Type is UD can do the
// same. cfg may be nil.
//
// A datagram has at most the size of the path MTU. Its receive needs 40 bytes more, for the header in
// front. It may be lost, and is always lost if no receive is posted. To answer one, create an address
// handle from its completion: [uverbs.PD.AHFromWC].
//
// C: rdma_bind_addr, rdma_create_qp
func OpenUD(local netip.Addr, cfg *Config) (*Conn, error) {
	if err := cfg.check("open", local.String()); err != nil {
		return nil, err
	}
	h, err := dialHubs.join(kernel.Owner(local))
	if err != nil {
		return nil, err
	}
	c := newConn(h)
	c.link.Add(conn.Freeing(h.release))
	settings := cfg.withDefaults()
	settings.QP.Type = verbs.QPTypeUD
	returned := false
	defer c.freeUnless(&returned)
	err = c.openUD(local, &settings)
	if returned = true; err != nil {
		return nil, c.abandon(context.Background(), err)
	}
	return c, nil
}

func (c *Conn) openUD(local netip.Addr, cfg *Config) error {
	if err := c.bind(local); err != nil {
		return err
	}
	return c.prepare(cfg)
}

// bind creates the ID on the device that has the address.
func (c *Conn) bind(local netip.Addr) error {
	if err := ofOneDevice(local); err != nil {
		return err
	}
	id, err := c.hub.newID(c, verbs.PortSpaceUDP)
	if err != nil {
		return err
	}
	c.use(id)
	return id.Bind(netip.AddrPortFrom(local, 0))
}

// Peer returns the destination of a datagram Conn from Dial, and nil for other Conns. The Conn owns
// its AH, so don't close it.
func (c *Conn) Peer() *Peer { return c.peer }

// resolvePeer stores the peer that the answer to a lookup describes. The Conn owns it.
func (c *Conn) resolvePeer(ev *Event) error {
	peer, err := newPeer(c.pd, ev)
	if err != nil {
		return err
	}
	c.verbs.Add(peer.AH)
	c.peer = peer
	return nil
}

func newPeer(pd *uverbs.PD, ev *Event) (*Peer, error) {
	ah, err := pd.CreateAH(&ev.UD.AH)
	if err != nil {
		return nil, err
	}
	return &Peer{AH: ah, QPN: ev.UD.QPN, QKey: ev.UD.QKey, PrivateData: ev.Param.PrivateData}, nil
}

// Lookup finds the datagram service at an address, which has the same form as for Dial. c's queue
// pair can send to any number of such peers. private, at most 180 bytes, goes to the service with
// the request. If the service is not reached over c's device, the error matches syscall.EXDEV. The
// caller must close the Peer's AH before c.
//
// C: rdma_resolve_addr, rdma_resolve_route, rdma_connect, ibv_create_ah
func (c *Conn) Lookup(ctx context.Context, address string, private []byte) (*Peer, error) {
	addrs, err := lookup(ctx, net.DefaultResolver, address)
	if err != nil {
		return nil, &verbs.Error{Op: "look up", Object: address, Err: err}
	}
	return dialer.FirstOf(ctx, addrs, func(ctx context.Context, addr netip.AddrPort) (*Peer, error) { return c.lookup(ctx, addr, private) })
}

func (c *Conn) lookup(ctx context.Context, dst netip.AddrPort, private []byte) (*Peer, error) {
	d, err := (&Dialer{Config: Config{PrivateData: private, QP: uverbs.QPOptions{Type: verbs.QPTypeUD}}}).withDefaults(dst.String())
	if err != nil {
		return nil, err
	}
	s, err := c.sibling("look up", dst.String())
	if err != nil {
		return nil, err
	}
	if src := c.local.Addr(); src.Is4() == dst.Addr().Unmap().Is4() {
		d.LocalAddr = netip.AddrPortFrom(src, 0)
	}
	peer, err := s.find(ctx, dst, d, c)
	if err != nil {
		return nil, attemptError("look up", dst, s.abandon(ctx, err))
	}
	if err := s.Close(); err != nil {
		return nil, errors.Join(err, peer.AH.Close())
	}
	return peer, nil
}

func (c *Conn) find(ctx context.Context, dst netip.AddrPort, d *Dialer, main *Conn) (*Peer, error) {
	if err := c.resolve(ctx, dst, d); err != nil {
		return nil, err
	}
	if err := c.sameDevice(main); err != nil {
		return nil, err
	}
	ev, err := c.connect(ctx, dst, d)
	if err != nil {
		return nil, during("ask", err)
	}
	return newPeer(main.pd, ev)
}

// sibling returns a Conn on the same hub, with another ID and without a queue pair.
func (c *Conn) sibling(op, object string) (*Conn, error) {
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed {
		return nil, &verbs.Error{Op: op, Object: object, Err: net.ErrClosed}
	}
	if c.qp.Type() != verbs.QPTypeUD {
		return nil, &verbs.Error{Op: op, Object: object, Err: syscall.EINVAL, Hint: "only a datagram Conn can"}
	}
	c.hub.hold()
	s := newConn(c.hub)
	s.link.Add(conn.Freeing(c.hub.release))
	return s, nil
}

// sameDevice checks that c's ID is on main's device.
func (c *Conn) sameDevice(main *Conn) error {
	addr, err := c.id.QueryAddr()
	if err != nil {
		return err
	}
	return addr.mustBeOn(main.Device().Info(), "queue pair on")
}
