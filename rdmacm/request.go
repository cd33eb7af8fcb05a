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

// Request is a connect request of a peer, or the lookup of a datagram service. The receiver must
// call exactly one of Accept, AcceptOn and Reject, once.
type Request struct {
	// PrivateData is the private data of the request. See [Conn.PrivateData].
	PrivateData []byte
	// LocalAddr and RemoteAddr are the addresses of the two ends.
	LocalAddr, RemoteAddr netip.AddrPort
	// DeviceIndex and NodeGUID identify the RDMA device that the request arrived at, for
	// uverbs.OpenIndex. Use them to choose a Config.PD.
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

// Accept creates a queue pair and connects it. It returns once the peer has confirmed. If ctx ends
// first, it returns an error that matches ctx.Err(). If Accept fails, the peer is rejected. cfg may
// be nil.
//
// Accept answers a datagram request with a new datagram queue pair, whatever the type in
// Config.QP. Nothing reports that its peer has gone, so a server of many peers should have one
// queue pair for all, and call AcceptOn.
func (r *Request) Accept(ctx context.Context, cfg *Config) (*Conn, error) {
	return r.accept(ctx, cfg, func() {})
}

// accept is Accept. It calls answered before it waits for the peer's confirmation.
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
		// Free everything before returning, not in the background, because the caller may close the
		// device after Listener.Close. On this side the kernel does not wait for an answer.
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
	if c.id.datagram { // the answer completes a lookup
		return nil
	}
	answered()
	if _, err := c.await(ctx, EventEstablished); err != nil {
		return during("wait for the peer's confirmation", err)
	}
	c.connected()
	return nil
}

// Reject refuses the request. private goes to the peer: at most 148 bytes on InfiniBand and RoCE, 136
// for datagrams, 251 on iWARP.
func (r *Request) Reject(private []byte) error {
	if r.answered.Swap(true) {
		return &OpError{Op: "reject", Object: r.RemoteAddr.String(), Err: net.ErrClosed}
	}
	return errors.Join(r.id.Reject(private), r.id.Destroy(), r.hub.release())
}

// AcceptOn answers a datagram request with c's queue pair, which any number of peers may share, and
// with private, at most 136 bytes. The kernel keeps no state for the answer. c must be a datagram
// Conn on the request's device.
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
	c.closing.Lock() // the number of a closed queue pair may belong to another one
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
