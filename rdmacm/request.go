package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/conn"
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
	conn     *Conn // set before the answer
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
func (r *Request) accept(ctx context.Context, cfg *Config, answered func()) (c *Conn, err error) {
	if cfg != nil {
		defer func() { r.traceAccept(cfg.Trace, c, err) }()
	}
	if r.answered.Swap(true) {
		return nil, &verbs.Error{Op: "accept", Object: r.RemoteAddr.String(), Err: net.ErrClosed}
	}
	growStack() // many servers have a goroutine for each connection
	c = newConn(r.hub)
	r.conn = c
	c.privateData = r.PrivateData
	c.link.Add(conn.Freeing(r.hub.release))
	c.use(r.id)
	r.id.setSink(c)
	settings := cfg.withDefaults()
	err = cfg.check("check", "Config")
	returned, accepted := false, false
	defer c.freeUnless(&returned)
	if err == nil {
		err = r.peerLeft(c.accept(ctx, r.at, &settings, func() {
			accepted = true
			answered()
		}))
	}
	if returned = true; err != nil {
		// Over InfiniBand and RoCE, the kernel keeps sending the answer to a peer that is rejected after it, and
		// destroying the ID waits for that. Destroying alone stops it, and rejects without a reason.
		if !accepted || c.id.isIWARP() {
			r.reject(reasonFor(ctx, err)) // fails if the peer was answered over iWARP, or has left
		}
		// Free everything before returning, not in the background, because the caller may close the
		// device after Listener.Close. On this side the kernel does not wait for an answer.
		return nil, attemptError("accept", r.RemoteAddr, c.abandon(context.Background(), err))
	}
	return c, nil
}

func (r *Request) traceAccept(t *Trace, c *Conn, err error) {
	if err != nil {
		t.refused(r.LocalAddr, r.RemoteAddr, err)
		return
	}
	if !c.id.datagram {
		c.traceEnd(t)
	}
	t.accepted(r.LocalAddr, r.RemoteAddr)
}

func (c *Conn) accept(ctx context.Context, addr *Addr, cfg *Config, answered func()) error {
	if err := c.prepareAt(addr, cfg); err != nil {
		return err
	}
	param := cfg.param(c.announced)
	if cfg.AckTimeout != 0 && !c.id.datagram {
		if err := c.id.SetAckTimeout(cfg.AckTimeout); err != nil {
			return err
		}
	}
	if err := c.id.Accept(param); err != nil {
		return err
	}
	c.depth = c.id.depth(param)
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

// peerLeft makes the error for a peer that has given up match ErrDisconnected. The kernel answers EINVAL then on
// InfiniBand and RoCE, because the ID is past the state for an answer. The values of an answer are checked before.
func (r *Request) peerLeft(err error) error {
	e, ok := err.(*verbs.Error)
	if !ok || isVerb(e) || e.Err != syscall.EINVAL || r.id.datagram || r.id.isIWARP() {
		return err
	}
	return &verbs.Error{Op: e.Op, Object: e.Object, Err: fmt.Errorf("%w (%w)", ErrDisconnected, e.Err), Hint: "the peer gave up before it was answered"}
}

// reject rejects the request with one of this package's reasons. It ignores errors, because destroying the
// ID rejects the request too, without a reason.
func (r *Request) reject(reason RejectReason) { _ = r.id.rejectWith(ownReason(reason), 0) }

// Reject refuses the request. private goes to the peer: at most 148 bytes on InfiniBand and RoCE, 136
// for datagrams, 251 on iWARP. If it is empty, the peer gets the reason RejectRefused.
func (r *Request) Reject(private []byte) error {
	if r.answered.Swap(true) {
		return &verbs.Error{Op: "reject", Object: r.RemoteAddr.String(), Err: net.ErrClosed}
	}
	if len(private) == 0 {
		private = ownReason(RejectRefused)
	}
	err := r.peerLeft(r.id.Reject(private))
	if err != nil {
		r.reject(RejectRefused)
	}
	return errors.Join(err, r.id.Close(), r.hub.release())
}

// AcceptOn answers a datagram request with c's queue pair, which any number of peers may share, and
// with private, at most 136 bytes. The kernel keeps no state for the answer. c must be a datagram
// Conn on the request's device.
//
// C: rdma_accept with struct rdma_conn_param's qp_num
func (r *Request) AcceptOn(c *Conn, private []byte) error {
	if r.answered.Swap(true) {
		return &verbs.Error{Op: "accept", Object: r.RemoteAddr.String(), Err: net.ErrClosed}
	}
	err := r.acceptOn(c, private)
	if err != nil {
		r.reject(RejectRefused)
	}
	return errors.Join(err, r.id.Close(), r.hub.release())
}

func (r *Request) acceptOn(c *Conn, private []byte) error {
	const op = "accept on a shared queue pair"
	c.closing.Lock() // the number of a closed queue pair may belong to another one
	defer c.closing.Unlock()
	switch {
	case c.closed:
		return &verbs.Error{Op: op, Object: r.RemoteAddr.String(), Err: net.ErrClosed}
	case !r.id.datagram || c.qp.Type() != verbs.QPTypeUD:
		return &verbs.Error{Op: op, Object: r.RemoteAddr.String(), Err: syscall.EINVAL,
			Hint: "the listener's Config.QP.Type and the Conn's must be UD"}
	}
	addr := Addr{DeviceIndex: r.DeviceIndex, NodeGUID: r.NodeGUID}
	if err := addr.mustBeOn(c.Device().Info(), "queue pair on"); err != nil {
		return err
	}
	return r.id.Accept(&ConnParam{QPN: c.qp.QPN(), PrivateData: private})
}

// Format implements [fmt.Formatter]. It prints the addresses, never the private data.
func (r *Request) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "connection request from %v to %v", r.RemoteAddr, r.LocalAddr)
}
