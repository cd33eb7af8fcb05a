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
				qp := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq,
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

// TestLargePages runs on a machine with pages of 64 KiB, which arm64 has: a page holds sixteen UARs,
// where the firmware can, and offsets count in such pages.
func TestLargePages(t *testing.T) {
	for name, device := range map[string]fakemlx5.Options{
		"dynamic UARs": {FirstUAR: 255}, "static UARs": {StaticUARs: true, CQEVersion0: true}, "no WC": {NoWC: true},
	} {
		t.Run(name, func(t *testing.T) {
			uars, pages := 0, make(map[int]bool)
			p := newPair(t, pairOptions{typ: verbs.QPTypeRC, device: device, kernel: func(k *fakeverbs.Kernel) {
				k.Page = 1 << 16
				k.Cross = func(c *fakeverbs.Crossing) {
					if c.Kind == fakeverbs.Doorbell && c.Offset&0xfff != uarCQ {
						uars, pages[c.Page] = max(uars, c.Offset/uarSize), true
					}
				}
			}})
			p.script()
			var qps []*uverbs.QP
			for range 40 {
				s := &p.Side[0]
				qp := providertest.Must[*uverbs.QP](t)(p.PD.CreateQP(&uverbs.QPOptions{SendCQ: s.CQ, RecvCQ: s.CQ, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}))
				providertest.Bring(t, qp)
				kqps := p.K.QueuePairs()
				p.Wire.Peers[kqps[len(kqps)-1]] = kqps[1]
				post(t, qp, verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{s.SGE(0, 8)}, RemoteAddr: p.Side[1].MR.Addr(), RKey: p.Side[1].MR.RKey()})
				qps = append(qps, qp)
			}
			if uars != 15 || len(pages) > 2 {
				t.Errorf("UARs up to %d of %d pages were used, want all sixteen of at most two", uars, len(pages))
			}
			providertest.Must[uint64](t)(p.Dev.QueryClock())
			cq := providertest.Must[*uverbs.CQ](t)(p.Dev.CreateCQ(1, &uverbs.CQOptions{Ext: verbs.WCExtWallClock}))
			dm := providertest.Must[*uverbs.DM](t)(p.Dev.AllocDM(4096, 0))
			if n, err := dm.WriteAt([]byte("eight by"), 64); n != 8 || err != nil {
				t.Error(n, err)
			}
			for _, qp := range qps {
				if err := qp.Close(); err != nil {
					t.Error(err)
				}
			}
			for _, c := range []interface{ Close() error }{cq, dm} {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			p.Close()
			p.NoViolations()
		})
	}
}
