package msg

import (
	"context"
	"sync/atomic"

	"github.com/goverbs/goverbs/uverbs"
)

// poll hands the completions of a CQ on until the CQ ends, and returns why.
func poll(ctx context.Context, cq *uverbs.CQ, to func(*uverbs.WC)) error {
	wcs := make([]uverbs.WC, 32)
	for {
		n, err := cq.Wait(ctx, wcs)
		for i := range wcs[:n] {
			to(&wcs[i])
		}
		if err != nil {
			return err
		}
	}
}

// pollAlone waits for the completions of a connection without a pool. Its CQs end with it.
func (c *Conn) pollAlone() {
	var left atomic.Int32
	left.Store(2)
	for _, cq := range []*uverbs.CQ{c.cm.SendCQ(), c.cm.RecvCQ()} {
		go func() {
			c.stop(poll(context.Background(), cq, c.completeOwn))
			// What was posted until then completes too.
			_ = poll(context.Background(), cq, c.completeOwn)
			if left.Add(-1) == 0 {
				c.finish()
			}
		}()
	}
}

// stop has nothing more be posted, because the completions have ended.
func (c *Conn) stop(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cause := c.link.cause(); cause != nil {
		err = cause
	}
	c.failBecause(err)
	c.endIfIdle()
}

// completeOwn leaves out what rdmacm posted to prove the connection.
func (c *Conn) completeOwn(wc *uverbs.WC) {
	if wrid(wc.WRID).conn() == c.id {
		c.complete(wc)
	}
}
