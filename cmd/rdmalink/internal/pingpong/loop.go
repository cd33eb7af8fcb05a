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
	cq, wcs := g.SendCQ, make([]verbs.WC, 2*len(g.qps))
	for g.sent < g.iters || g.received < g.iters {
		n, err := next(ctx, cq, wcs)
		for i := 0; i < n && err == nil; i++ {
			err = g.completed(&wcs[i])
		}
		if err != nil {
			return fmt.Errorf("after %d of %d exchanges: %w", min(g.sent, g.received), g.iters, peer.Interrupted(err))
		}
	}
	return nil
}

// completed handles a completion, and sends the next message when it is due.
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
		return fmt.Errorf("%w: the peer is gone, its GID can't be reached from this one (-g), or the path loses packets of this size (-m)", wc.Err())
	case verbs.StatusLocLenErr, verbs.StatusLocQPOpErr, verbs.StatusRemInvReqErr, verbs.StatusRemOpErr:
		return fmt.Errorf("%w: do both ends have the same -s and -m?", wc.Err()) // which of them depends on the kernel
	}
	return wc.Err()
}

// Kinds of completions. As a set they are the ones that a QP still waits for.
const (
	recvID uint64 = 1 << iota
	sendID
)

// game is the course of the exchanges.
type game struct {
	*end
	*session
	wr             [1]verbs.SendWR
	recvs          []verbs.RecvWR // as many as are posted at most
	posted         int            // receives that the device has
	sent, received int
	pending        []uint64       // by QP: a send follows when both have completed
	index          map[uint32]int // of a QP, by its number
}

func (p *session) newGame(e *end) *game {
	g := &game{end: e, session: p,
		recvs: make([]verbs.RecvWR, p.rxDepth), pending: make([]uint64, len(e.qps)), index: make(map[uint32]int)}
	for i := range g.recvs {
		g.recvs[i] = verbs.RecvWR{WRID: recvID, SGL: []verbs.SGE{e.mr.SGE(0, e.mr.Len())}}
	}
	for i, qp := range e.qps {
		g.pending[i] = recvID
		g.index[qp.QPN()] = i
	}
	wr := verbs.SendWR{WRID: sendID, Opcode: verbs.OpSend, Flags: verbs.SendSignaled}
	if int(e.qps[0].Cap().MaxInline) >= p.size {
		wr.Inline = g.message()
	} else {
		wr.SGL = []verbs.SGE{e.mr.SGE(p.kind.front, p.size)}
	}
	g.wr[0] = wr
	return g
}

func (g *game) message() []byte { return g.mr.Bytes()[g.kind.front:][:g.size] }

// refill posts receives up to the number of -r.
func (g *game) refill() (err error) {
	post := g.qps[0].PostRecv
	if g.srq != nil {
		post = g.srq.PostRecv
	}
	_, err = post(g.recvs[g.posted:])
	g.posted = len(g.recvs)
	return err
}

// meetPeer completes the address that messages go to.
func (g *game) meetPeer(remote []addr) {
	if g.ah != nil {
		g.wr[0].AH, g.wr[0].RemoteQPN, g.wr[0].RemoteQKey = g.ah, remote[0].qpn, qkey
	}
}

func (g *game) send(i int) error {
	g.pending[i] = sendID | recvID
	_, err := g.qps[i].PostSend(g.wr[:])
	return err
}
