package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/verbs"
)

// Request is a peer's wish to connect, or to know where datagrams go. Exactly one
// of Accept, AcceptOn and Reject has to be called, once.
type Request struct {
	// PrivateData is what the peer sent along; see Conn.PrivateData.
	PrivateData []byte
	// LocalAddr and RemoteAddr are the two ends.
	LocalAddr, RemoteAddr netip.AddrPort
	// DeviceIndex is the kernel's number of the RDMA device that the request
	// came in over, as uverbs.OpenIndex takes it, with the device's GUID: to
	// choose a Config.PD.
	DeviceIndex uint32
	NodeGUID    verbs.GUID

	hub      *hub
	id       *ID
	at       *Addr
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
		hub: l.hub, id: ev.ID, at: addr,
	}, nil
}

// Accept makes a queue pair and connects it. It returns once the peer has
// confirmed, or with an error that matches ctx.Err(). When it fails the peer has
// been rejected.
//
// A datagram request is answered with a datagram queue pair of its own, as
// Config.QP says but for the type. Nothing tells when its peer has gone; so a
// server of many had better have one queue pair for all, and AcceptOn.
func (r *Request) Accept(ctx context.Context, cfg *Config) (*Conn, error) {
	return r.accept(ctx, cfg, func() {})
}

// accept is Accept, and calls answered when all that is missing is the confirmation.
func (r *Request) accept(ctx context.Context, cfg *Config, answered func()) (*Conn, error) {
	if r.answered.Swap(true) {
		return nil, &OpError{Op: "accept", Object: r.RemoteAddr.String(), Err: net.ErrClosed}
	}
	growStack() // many servers have a goroutine for each connection
	c := newConn(r.hub)
	c.privateData = r.PrivateData
	c.link.add(freeing(r.hub.release))
	c.use(r.id)
	r.id.setSink(c)
	settings := cfg.withDefaults()
	err := cfg.check("check", "Config")
	returned := false
	defer c.freeUnless(&returned)
	if err == nil {
		err = c.accept(ctx, r.at, &settings, answered)
	}
	if returned = true; err != nil {
		// Nothing is left behind for a goroutine to close: after Listener.Close the caller may
		// close the device. On this side the kernel waits for no answer.
		return nil, attemptError("accept", r.RemoteAddr, c.abandon(context.Background(), err))
	}
	return c, nil
}

func (c *Conn) accept(ctx context.Context, addr *Addr, cfg *Config, answered func()) error {
	if err := c.prepareAt(addr, cfg); err != nil {
		return err
	}
	if err := c.id.Accept(cfg.param(c.announced)); err != nil {
		return err
	}
	if c.id.datagram { // the peer has what it wanted to know
		return nil
	}
	answered()
	if _, err := c.await(ctx, EventEstablished); err != nil {
		return during("wait for the peer's confirmation", err)
	}
	c.connected()
	return nil
}

// Reject tells the peer no, with a word of explanation if private is not empty
// (at most 148 bytes on InfiniBand and RoCE, 136 for datagrams, 251 on iWARP).
func (r *Request) Reject(private []byte) error {
	if r.answered.Swap(true) {
		return &OpError{Op: "reject", Object: r.RemoteAddr.String(), Err: net.ErrClosed}
	}
	return errors.Join(r.id.Reject(private), r.id.Destroy(), r.hub.release())
}

// AcceptOn answers a datagram request with c's queue pair, which any number of
// peers may share, and with private, at most 136 bytes. The kernel keeps nothing
// of it. c must be a datagram Conn on the request's device.
//
// C: rdma_accept with struct rdma_conn_param's qp_num
func (r *Request) AcceptOn(c *Conn, private []byte) error {
	if r.answered.Swap(true) {
		return &OpError{Op: "accept", Object: r.RemoteAddr.String(), Err: net.ErrClosed}
	}
	err := r.acceptOn(c, private)
	if err != nil {
		_ = r.id.Reject(nil)
	}
	return errors.Join(err, r.id.Destroy(), r.hub.release())
}

func (r *Request) acceptOn(c *Conn, private []byte) error {
	const op = "accept on a shared queue pair"
	c.closing.Lock() // a closed queue pair's number may be another's
	defer c.closing.Unlock()
	switch {
	case c.closed:
		return &OpError{Op: op, Object: r.RemoteAddr.String(), Err: net.ErrClosed}
	case !r.id.datagram || c.qp.Type() != verbs.QPTypeUD:
		return &OpError{Op: op, Object: r.RemoteAddr.String(), Err: syscall.EINVAL,
			Hint: "the listener's Config.QP.Type and the Conn's must be UD"}
	}
	addr := Addr{DeviceIndex: r.DeviceIndex, NodeGUID: r.NodeGUID}
	if err := addr.mustBeOn(c.Device().Info(), "queue pair on"); err != nil {
		return err
	}
	return r.id.Accept(&ConnParam{QPNum: c.qp.Num(), PrivateData: private})
}
