package rdmacm

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

const (
	// settleWRID marks the completions that settle takes off the CQ.
	settleWRID = 1<<64 - 1
	// settleKick is how long the peer's kernel is given before it is reminded.
	settleKick = 2 * time.Millisecond
	// settlePatience is how long without its answer a connection counts as
	// alive. TCP has sent a lost segment five times again by then.
	settlePatience = 10 * time.Second
)

// settle works round a race in the siw driver: the accepting side takes its TCP
// socket over for RDMA a moment after the dialling side may send, and what
// arrives in that moment lies there until something else arrives; seen as a
// first message missing in one of a hundred connections between two processors.
// So, before the dialler's caller may send, a READ of nothing proves that the
// peer's kernel listens, and WRITEs of nothing remind it while it does not.
// Neither touches memory or the peer's program.
//
// A READ of nothing has a risk of its own: if the peer is sending as it arrives, siw lays
// it aside without its length, answers with that of the message before, and ends the
// connection. But a peer that keeps to RFC 5044 (7.1) sends nothing before it has heard
// from the side that dialled.
//
// It needs a READ to be allowed, and a send CQ that nobody else reads.
func (c *Conn) settle(ctx context.Context, ev *Event) error {
	// The kernel reports the READs that this side may issue as the other
	// number.
	if c.Device().Info().Driver != verbs.DriverSIW || !c.ownSendCQ || ev.Param.ResponderResources == 0 {
		return nil
	}
	return c.prove(ctx, settlePatience)
}

// prove takes all that it posts off the CQ again. Each is signalled, so that
// each completes once, also when the connection ends meanwhile and all are
// flushed; that end is for the caller to find, as it would be without all this.
func (c *Conn) prove(ctx context.Context, patience time.Duration) error {
	due := c.postNothing(verbs.OpRDMARead)
	for start := time.Now(); due > 0; {
		got, err := c.takeNothing(ctx)
		due -= got
		switch {
		case got > 0:
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, context.DeadlineExceeded): // the end, with all flushed
			return nil
		case time.Since(start) > patience:
			return &OpError{Op: "prove the connection to", Object: c.remote.String(), Err: syscall.ETIMEDOUT,
				Hint: "the peer's kernel does not answer a READ, or Config.Prepare has begun to read SendCQ, which nobody may before Dial returns"}
		default:
			due += c.postNothing(verbs.OpRDMAWrite)
		}
	}
	return ctx.Err()
}

// postNothing says how many it posted: 0 when the queue is full, which is
// enough under way, or closed.
func (c *Conn) postNothing(op verbs.Opcode) int {
	n, _ := c.qp.PostSend([]verbs.SendWR{{WRID: settleWRID, Opcode: op, Flags: verbs.SendSignaled, SGL: make([]verbs.SGE, 1)}})
	return n
}

func (c *Conn) takeNothing(ctx context.Context) (int, error) {
	select {
	case <-c.Done(): // nothing is left to be reminded of
	default:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, settleKick)
		defer cancel()
	}
	var wcs [1]verbs.WC
	return c.SendCQ().Wait(ctx, wcs[:])
}
