package msg

import (
	"context"
	"sync"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// pollAlone begins to take the completions of a connection without a pool.
func (c *Conn) pollAlone() {
	p := c.poller
	p.sendCQ, p.recvCQ, p.channel = c.cm.SendCQ(), c.cm.RecvCQ(), c.cm.RecvCQ().Channel()
	p.handle, p.over, p.ended = c.completeOwn, c.cm.Done(), c.pollLast
	p.start()
}

// completeOwn leaves out what rdmacm posted to prove the connection.
func (c *Conn) completeOwn(wc *verbs.WC) {
	if wrid(wc.WRID).conn() == c.id {
		c.complete(wc)
	}
}

// pollLast takes what is still to complete on a connection that has ended.
func (c *Conn) pollLast(err error) {
	c.stop(err)
	var both sync.WaitGroup // one CQ ends only when the other has been polled
	for _, cq := range []*uverbs.CQ{c.poller.recvCQ, c.poller.sendCQ} {
		both.Go(func() { pollToEnd(cq, c.completeOwn) })
	}
	both.Wait()
	c.finish()
}

// stop has nothing more be posted, because the completions have ended.
func (c *Conn) stop(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failBecause(c.link.explain(err))
	c.endIfIdle()
}

// pollToEnd hands on the completions of a CQ of whose queue pair nothing more is posted.
func pollToEnd(cq *uverbs.CQ, to func(*verbs.WC)) {
	wcs := make([]verbs.WC, 32)
	for {
		n, err := cq.Wait(context.Background(), wcs)
		for i := range wcs[:n] {
			to(&wcs[i])
		}
		if err != nil {
			return // rdmacm ends the CQ, or closes it
		}
	}
}
