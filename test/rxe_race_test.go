//go:build vm

package test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const (
	posters   = 8   // goroutines that post to one queue
	pollers   = 4   // goroutines that take completions off one CQ; every second waits
	each      = 250 // work requests that one of them posts
	throng    = posters * each
	batchSize = 7 // the most that one posts at a time
)

// TestRxeManyPosters has many goroutines post to the queues of one QP, and others
// take the completions off its CQs: each work request completes once. The target
// vmrace runs it under the race detector.
func TestRxeManyPosters(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUD} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			rxeFabric(t)
			noLeak(t)
			s := rxeSetup{cqe: throng, cap: verbs.QPCap{MaxSendWR: 32, MaxRecvWR: 64}}
			if typ == verbs.QPTypeUD {
				s.cap.MaxRecvWR = throng // a message without a receive is lost
			}
			a, b := openRxe(t).pair(t, typ, s)
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
			defer cancel()
			var work sync.WaitGroup
			recv := post(ctx, t, &work, func(ids []uint64) (int, error) {
				wrs := make([]verbs.RecvWR, len(ids))
				for i, id := range ids {
					wrs[i] = verbs.RecvWR{WRID: id, SGL: []verbs.SGE{b.mr.SGE(0, uverbs.GRHSize+8)}}
				}
				return b.qp.PostRecv(wrs)
			})
			if typ == verbs.QPTypeUD {
				work.Wait()
			}
			received := collect(ctx, t, &work, b.recvCQ, func(wc verbs.WC) uint64 { return uint64(wc.Imm) })
			sent := collect(ctx, t, &work, a.sendCQ, func(wc verbs.WC) uint64 { return wc.WRID })
			posted := post(ctx, t, &work, func(ids []uint64) (int, error) {
				wrs := make([]verbs.SendWR, len(ids))
				for i, id := range ids {
					wrs[i] = a.send(id, sendFrom, 8)
					wrs[i].Opcode, wrs[i].Imm = verbs.OpSendImm, uint32(id)
				}
				return a.qp.PostSend(wrs)
			})
			work.Wait()
			t.Logf("queues were full %d and %d times", recv.Load(), posted.Load())
			for what, seen := range map[string]*tally{"sent": sent, "received": received} {
				for id := range seen.times {
					if n := seen.times[id].Load(); n != 1 {
						t.Errorf("message %d was %s %d times", id, what, n)
					}
				}
			}
		})
	}
}

// post has goroutines post all work requests, in batches, and counts how often
// the queue was full.
func post(ctx context.Context, t *testing.T, work *sync.WaitGroup, queue func(ids []uint64) (int, error)) *atomic.Int32 {
	var full atomic.Int32
	for p := range posters {
		work.Go(func() {
			for next := 0; next < each && ctx.Err() == nil; {
				var ids []uint64
				for i := next; i < min(next+1+p%batchSize, each); i++ {
					ids = append(ids, uint64(p*each+i))
				}
				n, err := queue(ids)
				if next += n; errors.Is(err, verbs.ErrQueueFull) {
					full.Add(1)
					runtime.Gosched()
				} else if err != nil || n != len(ids) {
					t.Errorf("posted %d of %d: %v", n, len(ids), err)
					return
				}
			}
		})
	}
	return &full
}

// tally counts each message.
type tally struct {
	times [throng]atomic.Int32
	left  atomic.Int32
	done  context.CancelFunc
}

// collect has goroutines take completions, until there is one for each message.
func collect(ctx context.Context, t *testing.T, work *sync.WaitGroup, cq *uverbs.CQ, id func(verbs.WC) uint64) *tally {
	s := new(tally)
	s.left.Store(throng)
	ctx, s.done = context.WithCancel(ctx)
	for p := range pollers {
		take := func(wcs []verbs.WC) (int, error) { return cq.Wait(ctx, wcs) }
		if p%2 == 0 {
			take = func(wcs []verbs.WC) (int, error) {
				runtime.Gosched()
				return cq.Poll(wcs)
			}
		}
		work.Go(func() {
			for ctx.Err() == nil {
				wcs := make([]verbs.WC, 1+p)
				n, err := take(wcs)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				for _, wc := range wcs[:n] {
					s.count(t, wc, id(wc))
				}
			}
		})
	}
	return s
}

func (s *tally) count(t *testing.T, wc verbs.WC, id uint64) {
	if wc.Status != verbs.StatusSuccess || id >= throng {
		t.Errorf("%+v", wc)
		id = 0
	}
	s.times[id].Add(1)
	if s.left.Add(-1) == 0 {
		s.done()
	}
}
