package mlx5

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestSharedRegisters has goroutines post on more QPs than there are registers. The model yields
// within each store, so that a goroutine that does not hold the register's lock would choose the
// half that another one is about to use, or copy a request into the middle of another's. The race
// detector sees the same fault as a race on the register's offset.
func TestSharedRegisters(t *testing.T) {
	const queues, posts = 3 * (dedicatedRegisters + sharedRegisters), 24
	for name, device := range map[string]fakemlx5.Options{
		"dynamic UARs": {}, "dynamic UARs, no BlueFlame": {NoBlueFlame: true}, "static UARs": {StaticUARs: true},
	} {
		t.Run(name, func(t *testing.T) {
			type at struct{ page, offset int }
			registers := make(map[at]bool)
			w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) {
				*fakemlx5.OptionsOf(k) = device
				k.Cross = func(c *fakeverbs.Crossing) {
					if c.Kind == fakeverbs.Doorbell {
						registers[at{c.Page, c.Offset &^ 0x1ff}] = true // two halves, or two plain ones
						runtime.Gosched()
					}
				}
			})
			var qps []*uverbs.QP
			for range queues {
				qp := must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq,
					Cap: verbs.QPCap{MaxSendWR: posts, MaxSendSGE: 1, MaxInline: 160}}))
				providertest.Bring(t, qp)
				qps = append(qps, qp)
			}
			var busy sync.WaitGroup
			for i, qp := range qps {
				busy.Go(func() {
					for j := range posts {
						wr := verbs.SendWR{Opcode: verbs.OpSend, Inline: data(1 + (i+j)*37%160)}
						if n, err := qp.PostSend([]verbs.SendWR{wr}); n != 1 || err != nil {
							t.Error(n, err)
						}
					}
				})
			}
			busy.Wait()
			if n := len(registers); n < 2 || n >= queues {
				t.Errorf("%d QPs have %d registers", queues, n)
			}
			for i, kqp := range w.k.QueuePairs()[1:] {
				for j := range posts {
					s, ok := kqp.TakeSend()
					if want := data(1 + (i+j)*37%160); !ok || fmt.Sprintf("%x", s.Inline) != fmt.Sprintf("%x", want) {
						t.Fatalf("QP %d, send %d: %v, %+v", i, j, ok, s)
					}
				}
			}
			for _, qp := range qps {
				if err := qp.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
