package cm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// typeRow is the option for the type of an XRC queue pair: the initiator sends, the target
// receives.
func typeRow(xrc verbs.QPType) row {
	return cli.NewRow('c', "type", "TYPE", "r for a reliable connection (default); x for XRC, which neither siw nor rxe has", func(o *options, value string) error {
		switch {
		case value != "" && strings.ContainsAny(value[:1], "rR"):
			o.portSpace, o.qpType = 0, 0
		case value != "" && strings.ContainsAny(value[:1], "xX"):
			o.portSpace, o.qpType = verbs.PortSpaceIB, xrc
		default:
			return cli.Expected(value, "r", "x")
		}
		return nil
	})
}

var rdmaXClient = &Program{
	Name: "rdma_xclient", Args: "[OPTIONS]",
	Summary: "send a message of 16 bytes; the other end may be rdma_xserver",
	text: `
The client disconnects first, when its message has arrived.

---
`,
	table:    cli.Options(onceServerRow, portRow("where the server listens (default 7471)"), typeRow(verbs.QPTypeXRCInitiator), jsonRow),
	defaults: onceDefaults,
	run: func(ctx context.Context, s *session) error {
		if s.qpType != 0 {
			return overXRC(ctx, s, (*xrc).send)
		}
		return ask(ctx, s, (*once).onlySend)
	},
}

var rdmaXServer = &Program{
	Name: "rdma_xserver", Args: "[OPTIONS]",
	Summary: "serve one client: get a message of 16 bytes; the other end may be rdma_xclient",
	text: `
The client disconnects first, when its message has arrived.

---
`,
	table:    cli.Options(portRow("to listen on (default 7471)"), typeRow(verbs.QPTypeXRCTarget), jsonRow),
	defaults: options{port: 7471},
	run: func(ctx context.Context, s *session) error {
		if s.qpType != 0 {
			return overXRC(ctx, s, (*xrc).receive)
		}
		return serve(ctx, s, (*once).onlyReceive)
	},
}

func (o *once) onlySend(ctx context.Context) error {
	start := time.Now()
	if err := o.send(ctx); err != nil {
		return err
	}
	return o.reportMessages(start, 1, 0)
}

func (o *once) onlyReceive(ctx context.Context) error {
	start := time.Now()
	if err := o.receive(ctx); err != nil {
		return err
	}
	o.left(ctx)
	return o.reportMessages(start, 0, 1)
}

// xrc is a connection of XRC, which carries one message, from the side that asks. The other
// side receives it on an SRQ, whose number is in the private data of its answer.
type xrc struct {
	*session
	channel *channel
	devices devices
	ids     []*rdmacm.ID // that listen
	*conn
}

// overXRC has one of the sides talk.
func overXRC(ctx context.Context, s *session, talk func(*xrc, context.Context) error) error {
	c, err := openChannel()
	if err != nil {
		return err
	}
	x := &xrc{session: s, channel: c}
	err = peer.Interrupted(talk(x, ctx))
	if x.conn != nil {
		err = errors.Join(err, x.conn.close())
	}
	return errors.Join(err, destroy(x.ids), c.close(), x.devices.close())
}

// prepareOn creates the objects that either side needs, on the device of its ID.
func (x *xrc) prepareOn() (cq *uverbs.CQ, err error) {
	if x.dev, err = x.devices.of(x.id); err != nil {
		return nil, err
	}
	if x.mr, err = x.dev.pd.AllocMR(onceSize, verbs.AccessLocalWrite, nil); err != nil {
		return nil, err
	}
	x.made.add(x.mr)
	if cq, err = x.dev.CreateCQ(1, &uverbs.CQOptions{Channel: x.dev.channel}); err != nil {
		return nil, err
	}
	x.made.add(cq)
	return cq, nil
}

func (x *xrc) reportMessages(start time.Time, sent, received int) error {
	x.size, x.report.Size = onceSize, onceSize
	return x.transferred(start, sent, received)
}

// send is the client.
func (x *xrc) send(ctx context.Context) error {
	dst, err := x.destination(ctx)
	if err != nil {
		return err
	}
	if x.conn, err = x.channel.newConn(x.portSpace, x.qpType); err != nil {
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
	if err := x.connected(x.dev.Info().Name, 1); err != nil {
		return err
	}
	start := time.Now()
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
	return x.reportMessages(start, 1, 0)
}

// makeInitiator creates a queue pair that only sends.
func (x *xrc) makeInitiator() (err error) {
	cq, err := x.prepareOn()
	if err != nil {
		return err
	}
	x.qp, err = x.dev.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeXRCInitiator, SendCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
	if err != nil {
		return err
	}
	x.made.add(x.qp)
	return x.id.AttachQP(x.qp)
}

// receive is the server.
func (x *xrc) receive(ctx context.Context) (err error) {
	x.report.Role = "server"
	requests := make(chan *rdmacm.ID, 1)
	x.ids, err = x.listen(ctx, x.channel, func(ev *rdmacm.Event) {
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
	if err := x.connected(x.dev.Info().Name, 1); err != nil {
		return err
	}
	start := time.Now()
	if err := x.take(ctx, cq, 1); err != nil {
		return err
	}
	x.left(ctx)
	return x.reportMessages(start, 0, 1)
}

// admit creates a target queue pair and an SRQ with a receive, and accepts the connection.
func (x *xrc) admit(ctx context.Context) (cq *uverbs.CQ, err error) {
	if cq, err = x.prepareOn(); err != nil {
		return nil, err
	}
	domain, err := x.dev.OpenXRCD(nil, 0)
	if err != nil {
		return nil, err
	}
	x.made.add(domain)
	srq, err := x.dev.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1, XRCD: domain, CQ: cq})
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
	return cq, x.accept(ctx, &rdmacm.ConnParam{PrivateData: binary.BigEndian.AppendUint32(nil, srq.Num())})
}

// left waits for the client to disconnect, so that the client's device gets the
// acknowledgement first.
func (x *xrc) left(ctx context.Context) {
	soon, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	_ = x.await(soon, rdmacm.EventDisconnected)
}
