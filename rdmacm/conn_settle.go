package rdmacm

import (
	"context"
	"errors"
	"time"

	"github.com/goverbs/goverbs/uverbs"
)

const (
	// settleWRID marks the one completion that settle takes off the CQ.
	settleWRID = 1<<64 - 1
	// settleKick is how long the peer's kernel is given before it is reminded.
	settleKick = 2 * time.Millisecond
)

// settle works round a race in the siw driver: the accepting side takes its TCP
// socket over for RDMA a moment after the dialling side may send, and what
// arrives in that moment lies there until something else arrives; seen as a
// first message missing in one of a hundred connections between two processors.
// So, before the dialler's caller may send, a READ of nothing proves that the
// peer's kernel listens, and WRITEs of nothing remind it while it does not.
// Neither touches memory or the peer's program.
//
// It needs a READ to be allowed, and a send CQ that nobody else reads. When the
// connection ends meanwhile that is for the caller to find, as it would be
// without all this; so the only error is the context's.
func (c *Conn) settle(ctx context.Context, cfg *Config, ev *Event) error {
	// The kernel reports the READs that this side may issue as the other
	// number.
	if c.Device().Info().Driver != uverbs.DriverSIW || cfg.QP.SendCQ != nil || ev.Param.ResponderResources == 0 {
		return nil
	}
	err := c.postNothing(uverbs.OpRDMARead, uverbs.SendSignaled)
	for due, silent := 1, 0; err == nil && due > 0; {
		var wcs [1]uverbs.WC
		wait, cancel := context.WithTimeout(ctx, settleKick)
		_, err = c.SendCQ().Wait(wait, wcs[:])
		cancel()
		if err == nil {
			due--
			if wcs[0].Status != uverbs.StatusSuccess { // then the WRITEs complete too
				due, silent = due+silent, 0
			}
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			break
		}
		switch err = c.postNothing(uverbs.OpRDMAWrite, 0); {
		case errors.Is(err, uverbs.ErrQueueFull):
			err = nil // there is enough under way
		case cfg.QP.SignalAll:
			due++
		default:
			silent++
		}
	}
	return ctx.Err()
}

func (c *Conn) postNothing(op uverbs.Opcode, flags uverbs.SendFlags) error {
	_, err := c.qp.PostSend([]uverbs.SendWR{{WRID: settleWRID, Opcode: op, Flags: flags, SGL: make([]uverbs.SGE, 1)}})
	return err
}
