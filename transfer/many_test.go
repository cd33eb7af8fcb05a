package transfer

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/topo"
	"github.com/goverbs/goverbs/verbs"
)

var manyPeers = flag.Int("peers", 100, "number of peers in TestManyPeers")

// TestManyPeers checks that an engine keeps 64 batches in progress with each of many peers. Each of
// them gets its share of the port, and no memory is kept.
func TestManyPeers(t *testing.T) {
	const inProgress, size = 64, 256
	const rounds, batches = 3, 2 * inProgress // to each peer in a round
	peers := *manyPeers
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, rdmatest.DeviceOptions{Kind: rdmatest.MLX5}, 1, 1)
		cfg := &Config{Topology: &topo.Topology{}}
		client := w.engine(0, "", cfg)
		ours := w.register(client, inProgress*size)
		fill(ours.Bytes(), 1)
		type other struct {
			peer   *Peer
			theirs *Region
			remote *Remote
			ended  atomic.Int64
			ops    [inProgress]Op
			batch  [inProgress]*Batch
		}
		others := make([]other, peers)
		for i := range others {
			o := &others[i]
			name := fmt.Sprint("server", i)
			server := w.engine(1, name, cfg)
			o.theirs = w.register(server, inProgress*size)
			o.peer, o.remote = w.open(client, name), w.remote(o.theirs)
		}
		w.fabric.SetBandwidth(1 << 30)
		var first runtime.MemStats
		goroutines := 0
		for round := range rounds {
			var ended atomic.Int64
			var shares []int64 // when half of the round's batches have ended
			var all sync.WaitGroup
			for i := range others {
				o := &others[i]
				clear(o.theirs.Bytes())
				o.ended.Store(0)
				all.Go(func() {
					for n := range batches + inProgress {
						k := n % inProgress
						if n >= inProgress {
							if err := o.batch[k].Wait(); err != nil {
								t.Error(err)
								return
							}
							o.ended.Add(1)
							if ended.Add(1) == int64(peers*batches/2) {
								for i := range others {
									shares = append(shares, others[i].ended.Load())
								}
							}
						}
						if n >= batches {
							continue
						}
						o.ops[k] = Op{Opcode: verbs.OpRDMAWrite, Local: ours.Span(k*size, size), Remote: o.remote, Offset: uint64(k * size)}
						var err error
						if o.batch[k], err = o.peer.Submit(t.Context(), o.ops[k:k+1]); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			for i := range others {
				if !slices.Equal(others[i].theirs.Bytes(), ours.Bytes()) {
					t.Fatalf("round %d: other bytes at peer %d", round, i)
				}
			}
			if least, mean := slices.Min(shares), int64(batches/2); least < mean*8/10 {
				t.Errorf("round %d: a peer has %d batches when the mean is %d", round, least, mean)
			}
			synctest.Wait()
			runtime.GC()
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			t.Logf("round %d: shares from %d to %d of %d, heap %d KiB, %d goroutines", round, slices.Min(shares), slices.Max(shares), batches/2, now.HeapAlloc>>10, runtime.NumGoroutine())
			if round == 0 {
				first, goroutines = now, runtime.NumGoroutine()
			}
			if now.HeapAlloc > first.HeapAlloc+first.HeapAlloc/20 || runtime.NumGoroutine() > goroutines+peers/10 { // others of this process, such as those of timers, come and go
				t.Errorf("round %d: %d bytes and %d goroutines, after the first %d and %d", round, now.HeapAlloc, runtime.NumGoroutine(), first.HeapAlloc, goroutines)
			}
		}
	})
}
