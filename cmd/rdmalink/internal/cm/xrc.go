package cm

import (
	"context"
	"errors"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

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
