package transfer

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// TestTransfer moves bytes in both directions, over one rail and over several.
func TestTransfer(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		for _, counts := range [][2]int{{1, 1}, {2, 2}, {1, 3}, {3, 2}} {
			w := newWorld(t, options, counts[:]...)
			client, server := w.engine(0, "", &Config{SliceSize: defaultSlice}), w.engine(1, "server", nil)
			const size = 1<<20 + 12345
			ours, theirs := w.register(client, 2*size), w.register(server, 2*size)
			fill(ours.Bytes()[:size], 1)
			fill(theirs.Bytes()[size:], 2)
			p := w.open(client, "server")
			remote := w.remote(theirs)
			if err := do(t.Context(), p, Op{Opcode: verbs.OpRDMAWrite, Local: ours.Span(0, size), Remote: remote},
				Op{Opcode: verbs.OpRDMARead, Local: ours.Span(size, size), Remote: remote, Offset: size}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(ours.Bytes(), theirs.Bytes()) {
				t.Errorf("%v: other bytes", counts)
			}
			if err := do(t.Context(), p); err != nil {
				t.Error("an empty batch:", err)
			}
			if err := do(t.Context(), p, Op{Opcode: verbs.OpRDMARead, Local: ours.Span(3, 0), Remote: remote, Offset: 2 * size}); err != nil {
				t.Error("an empty operation:", err)
			}
		}
	})
}

// TestNotify checks that notifications arrive once each, after the bytes.
func TestNotify(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		w := newWorld(t, options, 2, 2)
		client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
		const size, batches = 30 << 10, 200 // more than a window
		ours, theirs := w.register(client, size), w.register(server, size)
		fill(ours.Bytes(), 1)
		p, remote := w.open(client, "server"), w.remote(theirs)
		for i := range batches {
			ops := []Op{{Opcode: verbs.OpRDMAWrite, Local: ours.Span(0, size), Remote: remote}}
			b, err := p.SubmitNotify(t.Context(), ops, uint32(i%2))
			if err == nil {
				err = b.Wait()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := server.Await(t.Context(), 1, batches/2); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(ours.Bytes(), theirs.Bytes()) {
			t.Error("other bytes")
		}
		if err := server.Await(t.Context(), 0, 1); err != nil {
			t.Error(err)
		}
		// The rest is left: the next one makes it one more.
		none, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := server.Await(none, 0, batches/2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one more than were sent: %v", err)
		}
		waits := make(chan error)
		go func() { waits <- server.Await(t.Context(), 0, batches/2) }()
		synctest.Wait()
		b, err := p.SubmitNotify(t.Context(), nil, 0)
		if err == nil {
			err = errors.Join(b.Wait(), <-waits)
		}
		if err != nil {
			t.Error(err)
		}
		go func() { waits <- server.Await(t.Context(), 0, 1) }()
		synctest.Wait()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-waits; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Await when the engine is closed: %v", err)
		}
	})
}

// TestInvalid checks that an invalid batch performs nothing, and its error says why.
func TestInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, devices["rxe"], 1, 1)
		client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
		ours, theirs := w.register(client, 100), w.register(server, 100)
		p, remote := w.open(client, "server"), w.remote(theirs)
		own := w.remote(ours)
		secret, err := server.Register(make([]byte, 100), verbs.AccessRemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		closed, err := client.Register(make([]byte, 100), 0)
		if err == nil {
			err = closed.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		long := *remote
		long.keys = append(long.keys, 0)
		const write, read = verbs.OpRDMAWrite, verbs.OpRDMARead
		fill(ours.Bytes(), 1)
		for name, c := range map[string]struct {
			op   Op
			want error
			text string
		}{
			"SEND":            {Op{Opcode: verbs.OpSend, Local: ours.Span(0, 1), Remote: remote}, verbs.ErrInvalidWR, "neither"},
			"no span":         {Op{Opcode: write, Remote: remote}, ErrOutOfBounds, "span"},
			"another engine":  {Op{Opcode: write, Local: theirs.Span(0, 1), Remote: remote}, ErrOutOfBounds, "span"},
			"no remote":       {Op{Opcode: write, Local: ours.Span(0, 1)}, verbs.ErrInvalidWR, "Remote is nil"},
			"own":             {Op{Opcode: write, Local: ours.Span(0, 1), Remote: own}, ErrStale, ""},
			"more keys":       {Op{Opcode: write, Local: ours.Span(0, 1), Remote: &long}, ErrStale, ""},
			"beyond":          {Op{Opcode: write, Local: ours.Span(0, 2), Remote: remote, Offset: 99}, ErrOutOfBounds, "2 bytes at 99 of 100"},
			"far beyond":      {Op{Opcode: write, Local: ours.Span(0, 2), Remote: remote, Offset: 1<<64 - 1}, ErrOutOfBounds, "of 100"},
			"not to be read":  {Op{Opcode: read, Local: ours.Span(0, 1), Remote: w.remote(secret)}, ErrOutOfBounds, "access"},
			"a closed region": {Op{Opcode: read, Local: closed.Span(0, 1), Remote: remote}, net.ErrClosed, "operation 2 of 2"},
		} {
			err := do(t.Context(), p, Op{Opcode: write, Local: ours.Span(0, 100), Remote: remote}, c.op)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), "operation 2 of 2") {
				t.Errorf("%s: %v", name, err)
			}
			if name != "a closed region" && !bytes.Equal(theirs.Bytes(), make([]byte, 100)) {
				t.Errorf("%s: something was performed", name)
			}
			clear(theirs.Bytes())
		}
		for name, f := range map[string]func(){
			"negative":  func() { ours.Span(-1, 1) },
			"too long":  func() { ours.Span(1, 100) },
			"far away":  func() { ours.Span(101, 0) },
			"very long": func() { ours.Span(1, math.MaxInt) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("a span that is %s", name)
					}
				}()
				f()
			}()
		}
		if err := secret.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLies checks that a descriptor that lies costs the batch that uses it one error. Batches beside
// it are performed.
func TestLies(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		w := newWorld(t, options, 1, 1)
		client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
		const size = 64 << 10
		ours, theirs := w.register(client, size), w.register(server, size)
		p, remote := w.open(client, "server"), w.remote(theirs)
		fill(ours.Bytes(), 1)
		gone, err := server.Register(make([]byte, size), verbs.AccessRemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		old := w.remote(gone)
		if err := gone.Close(); err != nil {
			t.Fatal(err)
		}
		lies := map[string]*Remote{"deregistered": old}
		for name, lie := range map[string]func(*Remote){
			"address": func(r *Remote) { r.addr += 1 << 32 },
			"key":     func(r *Remote) { r.keys[0] ^= 0x5a00 },
			"length":  func(r *Remote) { r.length, r.addr = math.MaxInt, r.addr+1 },
		} {
			r := *remote
			r.keys = append([]uint32(nil), r.keys...)
			lie(&r)
			lies[name] = &r
		}
		for name, lie := range lies {
			bad, err := p.Submit(t.Context(), []Op{{Opcode: verbs.OpRDMAWrite, Local: ours.Span(0, size), Remote: lie}})
			if err != nil {
				t.Fatal(err)
			}
			good, err := p.SubmitNotify(t.Context(), []Op{{Opcode: verbs.OpRDMAWrite, Local: ours.Span(0, size), Remote: remote}}, 1)
			if err != nil {
				t.Fatal(err)
			}
			err = bad.Wait()
			if !errors.Is(err, verbs.StatusRemAccessErr) && !errors.Is(err, verbs.StatusRemInvReqErr) {
				t.Errorf("%s: %v", name, err)
			}
			if err := good.Wait(); err != nil || !bytes.Equal(ours.Bytes(), theirs.Bytes()) {
				t.Errorf("beside %s: %v", name, err)
			}
			if err := server.Await(t.Context(), 1, 1); err != nil {
				t.Error(err)
			}
			clear(theirs.Bytes())
		}
	})
}

// TestDeregistered checks that memory which the peer deregisters while a batch is in progress costs one operation of
// it. The other operation is performed, and so is the batch beside it.
func TestDeregistered(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		w := newWorld(t, options, 1, 1)
		client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
		const size = 2 * slots * smallSlice // more than is posted at once
		ours, gone, kept := w.register(client, 2*size), w.register(server, size), w.register(server, 2*size)
		p, there, left := w.open(client, "server"), w.remote(kept), w.remote(gone)
		for _, opcode := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
			fill(ours.Bytes(), int(opcode)+1)
			fill(kept.Bytes(), int(opcode)+2)
			_, resume := w.fabric.Pause()
			ops := []Op{{Opcode: opcode, Local: ours.Span(size, size), Remote: left}, {Opcode: opcode, Local: ours.Span(0, size/2), Remote: there}}
			b, err := p.Submit(t.Context(), ops)
			if err != nil {
				t.Fatal(err)
			}
			beside, err := p.Submit(t.Context(), []Op{{Opcode: opcode, Local: ours.Span(size/2, size/2), Remote: there, Offset: size / 2}})
			if err != nil {
				t.Fatal(err)
			}
			if err := gone.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Fatal(err)
			}
			resume()
			if err := b.Wait(); !errors.Is(err, verbs.StatusRemAccessErr) && !errors.Is(err, verbs.StatusRemInvReqErr) || ops[0].Err == nil || ops[1].Err != nil {
				t.Errorf("%v: %v, the operations: %v, %v", opcode, err, ops[0].Err, ops[1].Err)
			}
			if err := beside.Wait(); err != nil || !bytes.Equal(ours.Bytes()[:size], kept.Bytes()[:size]) {
				t.Errorf("%v beside it: %v", opcode, err)
			}
		}
	})
}

// TestRestart checks that batches to a peer that has died fail. One that was restarted with its name
// is not taken for the old one.
func TestRestart(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		w := newWorld(t, options, 1, 1, 1)
		client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
		ours, theirs := w.register(client, 64<<10), w.register(server, 64<<10)
		p, remote := w.open(client, "server"), w.remote(theirs)
		op := Op{Opcode: verbs.OpRDMARead, Local: ours.Span(0, 64<<10), Remote: remote}
		_, resume := w.fabric.Pause()
		b, err := p.Submit(t.Context(), []Op{op})
		if err != nil {
			t.Fatal(err)
		}
		w.name("server", nil)
		w.fabric.Host(1).Kill()
		if err := b.Wait(); !errors.Is(err, errNobody) {
			t.Errorf("a peer that has died: %v", err)
		}
		resume()
		if err := do(t.Context(), p, op); !errors.Is(err, errNobody) {
			t.Errorf("a peer that is dead: %v", err)
		}
		again := w.engine(2, "server", nil)
		w.register(again, 64<<10)
		<-p.ctx.Done() // the client has noticed
		if err := do(t.Context(), p, op); !errors.Is(err, ErrStale) {
			t.Errorf("a peer that was restarted: %v", err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := p.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed twice: %v", err)
		}
		p = w.open(client, "server")
		if err := do(t.Context(), p, op); !errors.Is(err, ErrStale) {
			t.Errorf("a descriptor from before: %v", err)
		}
	})
}

// TestCancel checks that a batch that is canceled returns at once, and its memory stays registered
// until no device uses it.
func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		w := newWorld(t, options, 1, 1)
		client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
		const size = 2 * slots * smallSlice // more than is posted at once
		ours, theirs := w.register(client, size), w.register(server, size)
		p, remote := w.open(client, "server"), w.remote(theirs)
		_, resume := w.fabric.Pause()
		ctx, cancel := context.WithCancel(t.Context())
		ops := []Op{{Opcode: verbs.OpRDMARead, Local: ours.Span(0, size), Remote: remote}}
		b, err := p.SubmitNotify(ctx, ops, 1)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := b.Wait(); !errors.Is(err, context.Canceled) || !errors.Is(ops[0].Err, context.Canceled) {
			t.Error(err)
		}
		if _, err := p.Submit(ctx, ops); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := ours.Close(); !errors.Is(err, verbs.ErrInUse) {
			t.Errorf("memory in use: %v", err)
		}
		resume()
		synctest.Wait()
		fill(theirs.Bytes(), 3)
		if err := do(t.Context(), p, ops...); err != nil || !bytes.Equal(ours.Bytes(), theirs.Bytes()) {
			t.Errorf("after a batch that was canceled: %v", err)
		}
		if err := ours.Close(); err != nil {
			t.Errorf("memory that nobody uses: %v", err)
		}
		if err := ours.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed twice: %v", err)
		}
	})
}

// TestClose checks that Close ends batches, and the memory is free.
func TestClose(t *testing.T) {
	each(t, func(t *testing.T, options rdmatest.DeviceOptions) {
		w := newWorld(t, options, 2, 2)
		client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
		ours, theirs := w.register(client, 64<<10), w.register(server, 64<<10)
		for _, closer := range []func(p *Peer) error{(*Peer).Close, func(*Peer) error { return client.Close() }} {
			p := w.open(client, "server")
			_, resume := w.fabric.Pause()
			b, err := p.Submit(t.Context(), []Op{{Opcode: verbs.OpRDMAWrite, Local: ours.Span(0, 64<<10), Remote: w.remote(theirs)}})
			if err != nil {
				t.Fatal(err)
			}
			if err := closer(p); err != nil {
				t.Error(err)
			}
			if err := b.Wait(); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			if n := ours.users.Load(); n > 0 {
				t.Errorf("%d work requests use the memory", n)
			}
			resume()
		}
		if _, err := client.Open(t.Context(), "server"); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := client.Register(make([]byte, 1), 0); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if err := client.Serve(conntest.NewPipes()); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if err := client.Close(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}
