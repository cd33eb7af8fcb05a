package cm

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

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
