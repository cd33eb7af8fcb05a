package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net/netip"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func (s *session) typeFlag(f *flag.FlagSet) {
	f.Func("c", "type of the queue pair: r, or x for XRC", func(v string) error {
		switch v {
		case "r":
		case "x":
			s.xrc, s.portSpace = true, verbs.PortSpaceIB
		default:
			return errors.New("neither r nor x")
		}
		return nil
	})
}

func xclientFlags(f *flag.FlagSet, s *session) {
	clientFlags(f, s)
	s.typeFlag(f)
}

func xserverFlags(f *flag.FlagSet, s *session) {
	s.portFlag(f)
	s.typeFlag(f)
}

func runXClient(ctx context.Context, s *session) error {
	if s.xrc {
		return overXRC(ctx, s, (*xrc).send)
	}
	return ask(ctx, s, (*once).onlySend)
}

func runXServer(ctx context.Context, s *session) error {
	if s.xrc {
		return overXRC(ctx, s, (*xrc).receive)
	}
	return serve(ctx, s, (*once).onlyReceive)
}

func (o *once) onlySend(ctx context.Context) error {
	if err := o.send(ctx); err != nil {
		return err
	}
	o.transferred(1, 0)
	return nil
}

func (o *once) onlyReceive(ctx context.Context) error {
	if err := o.receive(ctx); err != nil {
		return err
	}
	o.left(ctx)
	o.transferred(0, 1)
	return nil
}

// xrc is a connection of XRC, which carries one message, from the side that asks. The other
// side receives it on an SRQ, whose number is in the private data of its answer.
type xrc struct {
	*session
	channel  *channel
	devices  devices
	listener *rdmacm.ID // of the server
	*conn
}

// overXRC runs one of the sides.
func overXRC(ctx context.Context, s *session, talk func(*xrc, context.Context) error) error {
	c, err := openChannel()
	if err != nil {
		return err
	}
	x := &xrc{session: s, channel: c}
	err = talk(x, ctx)
	if x.conn != nil {
		err = errors.Join(err, x.conn.close())
	}
	if x.listener != nil {
		err = errors.Join(err, x.listener.Close())
	}
	return errors.Join(err, c.close(), x.devices.close())
}

// prepareOn creates the objects that either side needs, on the device of its ID.
func (x *xrc) prepareOn() (end *uverbs.Endpoint, err error) {
	if x.dev, err = x.devices.of(x.id); err != nil {
		return nil, err
	}
	if x.mr, err = x.dev.end.PD.AllocMR(onceSize, verbs.AccessLocalWrite, nil); err != nil {
		return nil, err
	}
	x.made.add(x.mr)
	return x.own(1, 0)
}

// send runs the client.
func (x *xrc) send(ctx context.Context) error {
	_, dst, err := x.addrs()
	if err != nil {
		return err
	}
	if x.conn, err = x.channel.newConn(x.portSpace, verbs.QPTypeXRCInitiator); err != nil {
		return err
	}
	if err := x.resolveAddr(ctx, netip.Addr{}, dst, patience); err != nil {
		return err
	}
	if err := x.resolveRoute(ctx, patience); err != nil {
		return err
	}
	if err := x.makeInitiator(); err != nil {
		return err
	}
	if err := x.connect(ctx, nil); err != nil {
		return err
	}
	if len(x.private) < 4 {
		return fmt.Errorf("the server does not say to which SRQ to send: %d bytes of private data", len(x.private))
	}
	x.connected(x.dev.Info().Name, 1)
	wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{x.mr.SGE(0, onceSize)},
		SRQN: binary.BigEndian.Uint32(x.private)}
	if _, err := x.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	if err := x.take(ctx, x.qp.SendCQ(), 1); err != nil {
		return err
	}
	if err := x.id.Disconnect(); err != nil {
		return err
	}
	x.transferred(1, 0)
	return nil
}

// makeInitiator creates a queue pair that only sends.
func (x *xrc) makeInitiator() (err error) {
	end, err := x.prepareOn()
	if err != nil {
		return err
	}
	x.qp, err = end.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeXRCInitiator, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
	if err != nil {
		return err
	}
	x.made.add(x.qp)
	return x.id.AttachQP(x.qp)
}

// receive runs the server.
func (x *xrc) receive(ctx context.Context) (err error) {
	requests := make(chan *rdmacm.ID, 1)
	x.listener, err = x.listen(x.channel, func(ev *rdmacm.Event) {
		select {
		case requests <- ev.ID:
		default:
			refuse(ev.ID)
		}
	})
	if err != nil {
		return err
	}
	select {
	case id := <-requests:
		x.conn = x.channel.adopt(id)
	case <-ctx.Done():
		return ctx.Err()
	}
	cq, err := x.admit(ctx)
	if err != nil {
		_ = x.id.Reject(nil)
		return err
	}
	x.connected(x.dev.Info().Name, 1)
	if err := x.take(ctx, cq, 1); err != nil {
		return err
	}
	x.left(ctx)
	x.transferred(0, 1)
	return nil
}

// admit creates a target queue pair and an SRQ with a receive, and accepts the connection.
func (x *xrc) admit(ctx context.Context) (cq *uverbs.CQ, err error) {
	end, err := x.prepareOn()
	if err != nil {
		return nil, err
	}
	domain, err := x.dev.OpenXRCD(nil, 0)
	if err != nil {
		return nil, err
	}
	x.made.add(domain)
	srq, err := end.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1, XRCD: domain, CQ: end.RecvCQ})
	if err != nil {
		return nil, err
	}
	x.made.add(srq)
	if _, err := srq.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{x.mr.SGE(0, onceSize)}}}); err != nil {
		return nil, err
	}
	if x.qp, err = domain.CreateQP(); err != nil {
		return nil, err
	}
	x.made.add(x.qp)
	if err := x.id.AttachQP(x.qp); err != nil {
		return nil, err
	}
	return end.RecvCQ, x.accept(ctx, &rdmacm.ConnParam{PrivateData: binary.BigEndian.AppendUint32(nil, srq.Num())})
}

// left waits for the client to disconnect, so that the client's device gets the
// acknowledgement first.
func (x *xrc) left(ctx context.Context) {
	soon, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	_ = x.await(soon, rdmacm.EventDisconnected)
}
