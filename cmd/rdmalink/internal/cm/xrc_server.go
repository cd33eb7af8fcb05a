package cm

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

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
