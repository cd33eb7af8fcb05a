package pingpong

import (
	"context"
	"fmt"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// play exchanges messages until the requested number has passed in both directions.
func (g *game) play(ctx context.Context) error {
	if g.host != "" {
		for i := range g.qps {
			if err := g.send(i); err != nil {
				return err
			}
		}
	}
	next := peer.Poll
	if g.events {
		next = func(ctx context.Context, cq *uverbs.CQ, wcs []verbs.WC) (int, error) { return cq.Wait(ctx, wcs) }
	}
	wcs := make([]verbs.WC, 2*len(g.qps))
	for g.sent < g.iters || g.received < g.iters {
		n, err := next(ctx, g.cq, wcs)
		for i := 0; i < n && err == nil; i++ {
			err = g.completed(&wcs[i])
		}
		if err != nil {
			return fmt.Errorf("after %d of %d exchanges: %w", min(g.sent, g.received), g.iters, peer.Interrupted(err))
		}
	}
	return nil
}

// completed takes note of a completion, and sends when it is time.
//
// C: parse_single_wc
func (g *game) completed(wc *verbs.WC) error {
	i, ours := g.index[wc.QPN]
	switch {
	case wc.Status != verbs.StatusSuccess:
		return explainWC(wc)
	case !ours:
		return fmt.Errorf("a completion for QP %d, which is not ours", wc.QPN)
	case wc.WRID == sendID:
		g.sent++
	case wc.WRID != recvID:
		return fmt.Errorf("a completion for work request %d, which was not posted", wc.WRID)
	case int(wc.ByteLen) != g.mr.Len():
		return fmt.Errorf("a message of %d bytes, not %d: start both ends with the same -s", int(wc.ByteLen)-g.kind.front, g.size)
	default:
		g.received++
		if g.posted--; g.posted <= len(g.qps) {
			if err := g.refill(); err != nil {
				return err
			}
		}
	}
	g.pending[i] &^= wc.WRID
	if g.sent < g.iters && g.pending[i] == 0 {
		return g.send(i)
	}
	return nil
}

// explainWC adds likely causes to the error of a failed completion.
func explainWC(wc *verbs.WC) error {
	switch wc.Status {
	case verbs.StatusRetryExcErr:
		return fmt.Errorf("%w: the peer is gone, or its GID can't be reached from this one (-g)", wc.Err())
	case verbs.StatusLocLenErr, verbs.StatusLocQPOpErr, verbs.StatusRemInvReqErr, verbs.StatusRemOpErr:
		return fmt.Errorf("%w: do both ends have the same -s?", wc.Err()) // which of them depends on the kernel
	}
	return wc.Err()
}
