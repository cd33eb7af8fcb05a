package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// stream keeps batches of size bytes in progress until n have ended, and calls at with the number of each that does.
func stream(t *testing.T, p *Peer, ours, theirs *Region, remote *Remote, n, size int, at func(int)) {
	const depth = 4
	var all [depth]*Batch
	for i := range n + depth {
		if i >= depth {
			if err := all[i%depth].Wait(); err != nil {
				t.Fatalf("batch %d: %v", i-depth, err)
			}
			off := (i % depth) * size
			if !bytes.Equal(ours.Bytes()[off:off+size], theirs.Bytes()[off:off+size]) {
				t.Fatalf("batch %d: other bytes", i-depth)
			}
			at(i - depth)
		}
		if i < n {
			off := (i % depth) * size
			from, opcode := ours, verbs.OpRDMAWrite
			if i%3 == 0 {
				from, opcode = theirs, verbs.OpRDMARead
			}
			fill(from.Bytes()[off:off+size], i)
			op := Op{Opcode: opcode, Local: ours.Span(off, size), Remote: remote, Offset: uint64(off)}
			var err error
			if all[i%depth], err = p.Submit(t.Context(), []Op{op}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// upRails returns how many rails are up.
func (p *Peer) upRails() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rails {
		if r.up {
			n++
		}
	}
	return n
}

// awaitRails waits in a bubble until n rails are up.
func (p *Peer) awaitRails(n int) {
	for p.upRails() != n {
		time.Sleep(time.Millisecond)
	}
}

// TestRails checks that two rails are as fast as two. If one fails, its batches go on over the other,
// and it is used again when it is back.
func TestRails(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		const batches, cuts, between = 40, 5, 2000 // between cuts
		var took [3]time.Duration
		for rails := 1; rails <= 2; rails++ {
			w := newWorld(t, options, rails, rails)
			client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
			ours, theirs := w.register(client, 256<<10), w.register(server, 256<<10)
			w.fabric.SetBandwidth(128 << 20)
			w.fabric.SetLatency(2 * time.Microsecond)
			p, remote := w.open(client, "server"), w.remote(theirs)
			p.awaitRails(rails)
			begin := time.Now()
			stream(t, p, ours, theirs, remote, batches, 32<<10, func(int) {})
			took[rails] = time.Since(begin)
			if rails == 1 {
				continue
			}
			device := w.fabric.Host(0).Device(1)
			last, longest := time.Now(), time.Duration(0)
			stream(t, p, ours, theirs, remote, cuts*between, 2*smallSlice, func(i int) {
				longest, last = max(longest, time.Since(last)), time.Now()
				if i%between == between/4 {
					device.SetLink(false)
				}
				if i%between != between/2 {
					return
				}
				if n := p.upRails(); n != 1 {
					t.Errorf("%d rails are up without a link", n)
				}
				device.SetLink(true)
				time.Sleep(10 * time.Second) // of the bubble, until the rail is tried again
				if n := p.upRails(); n != 2 {
					t.Errorf("%d rails are up after the link has come back", n)
				}
				last = time.Now()
			})
			t.Logf("%d batches, %d cuts: at most %v of the bubble between the ends of two", cuts*between, cuts, longest)
			if longest > time.Second {
				t.Errorf("no batch ended for %v", longest)
			}
		}
		if took[1] < took[2]*19/10 {
			t.Errorf("%d batches took %v over one rail, and %v over two", batches, took[1], took[2])
		}
	})
}

// TestNoRail checks that if no rail is left, batches fail. They are performed again when one is back.
func TestNoRail(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		w := newWorld(t, options, 2, 1)
		client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
		ours, theirs := w.register(client, 256<<10), w.register(server, 256<<10)
		fill(ours.Bytes(), 1)
		p, remote := w.open(client, "server"), w.remote(theirs)
		op := Op{Opcode: verbs.OpRDMAWrite, Local: ours.Span(0, 256<<10), Remote: remote}
		device := w.fabric.Host(1).Device(0)
		device.SetLink(false)
		if err := do(t.Context(), p, op); err == nil {
			t.Error("no rail has a link")
		}
		device.SetLink(true)
		if text := fmt.Sprint(p); text != "transfer peer server, 0 of 2 rails up" {
			t.Error(text)
		}
		for do(t.Context(), p, op) != nil {
			time.Sleep(time.Second) // of the bubble
		}
		if !bytes.Equal(ours.Bytes(), theirs.Bytes()) {
			t.Error("other bytes")
		}
	})
}

// TestFence checks that what a failed rail has left undone waits until the peer has closed the queue
// pair, or until no packet of it can be on its way any more.
func TestFence(t *testing.T) {
	for _, reachable := range []bool{true, false} {
		t.Run(fmt.Sprintf("reachable %v", reachable), func(t *testing.T) {
			each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
				w := newWorld(t, options, 2, 2)
				client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
				const size = 64 << 10
				ours, theirs := w.register(client, size), w.register(server, size)
				fill(ours.Bytes(), 1)
				p, remote := w.open(client, "server"), w.remote(theirs)
				p.awaitRails(2)
				open := make(chan struct{})
				w.mu.Lock()
				w.gate = open
				w.mu.Unlock()
				w.fabric.Host(0).Device(1).SetLink(false)
				b, err := p.SubmitNotify(t.Context(), []Op{{Opcode: verbs.OpRDMAWrite, Local: ours.Span(0, size), Remote: remote}}, 1)
				if err != nil {
					t.Fatal(err)
				}
				p.awaitRails(1)
				time.Sleep(fenceTime / 2)
				if len(b.done) > 0 {
					t.Error("the batch has ended, and the peer has not closed the queue pair")
				}
				if reachable {
					close(open)
					synctest.Wait()
				} else {
					time.Sleep(fenceTime)
				}
				if len(b.done) == 0 {
					t.Error("the batch has not ended")
				}
				if err := b.Wait(); err != nil || !bytes.Equal(ours.Bytes(), theirs.Bytes()) {
					t.Error(err)
				}
				if err := server.Await(t.Context(), 1, 1); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestFair checks that batches take turns, so a short one does not wait for a long one before it.
func TestFair(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		w := newWorld(t, options, 1, 1)
		client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
		const size = 10 * slots * smallSlice
		ours, theirs := w.register(client, size), w.register(server, size)
		w.fabric.SetBandwidth(128 << 20)
		p, remote := w.open(client, "server"), w.remote(theirs)
		op := Op{Opcode: verbs.OpRDMAWrite, Local: ours.Span(0, size), Remote: remote}
		long, err := p.Submit(t.Context(), []Op{op})
		if err != nil {
			t.Fatal(err)
		}
		op.Local = ours.Span(0, smallSlice)
		if err := do(t.Context(), p, op); err != nil {
			t.Error(err)
		}
		if len(long.done) > 0 {
			t.Error("the short batch has waited for the long one")
		}
		if err := long.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestHeldNotification checks that what a failed connection has left undone of a notification depends
// on what the peer says.
func TestHeldNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, devices["rxe"], 1, 1)
		client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
		p := w.open(client, "server")
		for value, c := range []struct {
			arrived *window
			again   int
			want    error
		}{{&window{base: 4}, 0, nil}, {&window{bits: 8}, 0, nil}, {&window{base: 3}, 1, nil}, {nil, 0, ErrUnknown}} {
			p.mu.Lock()
			b := &Batch{peer: p, ctx: t.Context(), done: make(chan struct{}, 1), out: 1}
			p.batches = append(p.batches, b)
			r := p.rails[0]
			r.held = append(r.held, piece{batch: b, opcode: verbs.OpSend, value: uint32(value), number: 3})
			p.mu.Unlock()
			r.release(c.arrived, -1)
			if err := b.Wait(); !errors.Is(err, c.want) {
				t.Errorf("%+v: %v, want %v", c.arrived, err, c.want)
			}
			synctest.Wait()
			if n := server.counts.arrived[uint32(value)]; n != c.again {
				t.Errorf("%+v: the notification is sent %d times again, want %d", c.arrived, n, c.again)
			}
		}
	})
}
