package msg

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// regions returns n bytes of b's that a may use, filled with a pattern, and n of a's.
func regions(t *testing.T, a, b *Conn, n int) (theirs, ours *Region) {
	t.Helper()
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(i*7 + i>>8)
	}
	theirs, err := b.Register(text, MayRead|MayWrite|MayAtomic)
	if err != nil {
		t.Fatal(err)
	}
	if ours, err = a.Register(make([]byte, n), 0); err != nil {
		t.Fatal(err)
	}
	return theirs, ours
}

// reads returns READs of blocks of size bytes, which together read a whole region.
func reads(ours, theirs *Region, size int) []Op {
	ops := make([]Op, len(ours.Bytes())/size)
	for i := range ops {
		ops[i] = Op{Opcode: verbs.OpRDMARead, Local: ours.Span(i*size, size), Remote: theirs.Remote(), Offset: uint64(i * size)}
	}
	return ops
}

// TestBatch checks that a batch has the same result as its operations performed one at a time, over each transport,
// also if the batch is longer than the send queue and if several goroutines call Do.
func TestBatch(t *testing.T) {
	onFabrics(t, func(t *testing.T, f *rdmatest.Fabric, cfg Config) {
		a, b := connect(t, &cfg)
		theirs, ours := regions(t, a, b, 200*16)
		ctx := t.Context()
		ops := reads(ours, theirs, 16)
		if err := a.Do(ctx, ops[:64]); err != nil {
			t.Fatal(err)
		}
		if n := 64 * 16; !bytes.Equal(ours.Bytes()[:n], theirs.Bytes()[:n]) || !bytes.Equal(ours.Bytes()[n:], make([]byte, len(ours.Bytes())-n)) {
			t.Error("64 READs read something else")
		}
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				if err := a.Do(ctx, ops[i*50:][:50]); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if !bytes.Equal(ours.Bytes(), theirs.Bytes()) {
			t.Error("200 READs read something else")
		}
		mixed := []Op{
			{Opcode: verbs.OpRDMAWrite, Local: ours.Span(0, 16), Remote: theirs.Remote(), Offset: 64},
			{Opcode: verbs.OpFetchAdd, Remote: theirs.Remote(), Offset: 64, CompareAdd: 5},
			{Opcode: verbs.OpCompareSwap, Remote: theirs.Remote(), Offset: 8, CompareAdd: 1, Swap: 2},
			{Opcode: verbs.OpRDMARead, Local: ours.Span(16, 16), Remote: theirs.Remote(), Offset: 64},
		}
		first, second := binary.NativeEndian.Uint64(ours.Bytes()), binary.NativeEndian.Uint64(theirs.Bytes()[8:])
		err := a.Do(ctx, mixed)
		if a.CM().Device().Info().Driver == verbs.DriverSIW { // which has no atomic operations
			for i, op := range mixed {
				if isAtomic := i == 1 || i == 2; (op.Err != nil) != isAtomic || isAtomic && !errors.Is(op.Err, errors.ErrUnsupported) {
					t.Errorf("operation %d: %v", i, op.Err)
				}
			}
			if err == nil {
				t.Error("no error of an atomic operation")
			}
		} else if err != nil || mixed[1].Old != first || mixed[2].Old != second || binary.NativeEndian.Uint64(ours.Bytes()[16:]) != first+5 {
			t.Error(err, mixed)
		}
		if err := a.Send(ctx, []byte("it is still up")); err != nil {
			t.Error(err)
		}
		m, err := b.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m.Release()
	})
}

// TestBatchInvalid checks that if an operation of a batch is invalid, none is performed.
func TestBatchInvalid(t *testing.T) {
	w, a := hostile(t)
	theirs, ours := regions(t, a, w.ends[1].conn, 64)
	for name, bad := range map[string]Op{
		"beyond the end": {Opcode: verbs.OpRDMARead, Local: ours.Span(0, 16), Remote: theirs.Remote(), Offset: 50},
		"no memory":      {Opcode: verbs.OpRDMAWrite, Remote: theirs.Remote()},
		"misaligned":     {Opcode: verbs.OpFetchAdd, Remote: theirs.Remote(), Offset: 4},
		"a SEND":         {Opcode: verbs.OpSend, Local: ours.Span(0, 16), Remote: theirs.Remote()},
	} {
		ops := append(reads(ours, theirs, 16), bad)
		err := a.Do(t.Context(), ops)
		if !errors.Is(err, ErrOutOfBounds) && !errors.Is(err, verbs.ErrInvalidWR) || !errors.Is(err, ops[4].Err) {
			t.Errorf("%s: %v", name, err)
		}
		for i := range ops {
			if ops[i].Err == nil {
				t.Errorf("%s: operation %d has no error", name, i)
			}
		}
		if n := w.ends[0].sends.len(); n > 0 {
			t.Errorf("%s: %d were posted", name, n)
		}
	}
	if err := a.Do(t.Context(), nil); err != nil {
		t.Error("an empty batch:", err)
	}
	if err := ours.Close(); err != nil {
		t.Error("an operation that was not posted uses the region:", err)
	}
}

// TestBatchFails checks that each operation has its own error. Those before the first failure were
// performed.
func TestBatchFails(t *testing.T) {
	for _, code := range []verbs.Opcode{verbs.OpRDMARead, verbs.OpRDMAWrite, verbs.OpFetchAdd} {
		w, a := hostile(t)
		theirs, ours := regions(t, a, w.ends[1].conn, 100*16)
		ops := reads(ours, theirs, 16)
		ops[30].Opcode = code
		ops[30].Remote.RKey = 77
		stop := w.run()
		err := a.Do(t.Context(), ops)
		stop()
		if !errors.Is(err, verbs.StatusRemAccessErr) {
			t.Error(err)
		}
		for i := range ops {
			if (ops[i].Err == nil) != (i < 30) || (i == 30) != errors.Is(ops[i].Err, verbs.StatusRemAccessErr) && i == 30 {
				t.Errorf("operation %d: %v", i, ops[i].Err)
			}
		}
		if !bytes.Equal(ours.Bytes()[:30*16], theirs.Bytes()[:30*16]) {
			t.Error("the operations before the failure were not performed")
		}
		if err := ours.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestBatchCancelled checks that after a canceled batch, of which some operations were performed,
// some posted and some not, the device owns the memory until it is done. Other calls go on, and the
// call's operations change no more.
func TestBatchCancelled(t *testing.T) {
	w, a := hostile(t)
	theirs, ours := regions(t, a, w.ends[1].conn, 200*16)
	ops := reads(ours, theirs, 16)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Do(ctx, ops) }()
	<-w.news
	for range 64 {
		w.ends[0].carry()
	}
	w.ends[0].deliver(&w.ends[0].sent) // 64 are performed, and 64 posted
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := ours.Close(); !errors.Is(err, ErrInUse) {
		t.Fatal("closed while the device may use it:", err)
	}
	for i := range ops {
		if (ops[i].Err == nil) != (i < 64) || i >= 64 && !errors.Is(ops[i].Err, context.Canceled) {
			t.Errorf("operation %d: %v", i, ops[i].Err)
		}
	}
	w.settle()
	if ops[64].Err == nil || ops[127].Err == nil {
		t.Error("the operations of a call that has returned changed")
	}
	if !bytes.Equal(ours.Bytes()[:128*16], theirs.Bytes()[:128*16]) || ours.Bytes()[128*16] != 0 || ours.Bytes()[199*16] != 0 {
		t.Error("the device did not perform those that were posted, and only these")
	}
	stop := w.run()
	defer stop()
	if err := a.Do(t.Context(), ops[128:]); err != nil || !bytes.Equal(ours.Bytes()[128*16:], theirs.Bytes()[128*16:]) {
		t.Error(err)
	}
	if err := ours.Close(); err != nil {
		t.Error(err)
	}
	if a.wants != 0 {
		t.Errorf("%d reasons to handle completions are left", a.wants)
	}
}

// TestBatchRefused checks that a post that the queue pair refuses in the middle of a batch ends the
// connection, and the call returns although no completion reports the operations that were posted.
// Their memory is freed with the queue pair.
func TestBatchRefused(t *testing.T) {
	w, a := hostile(t)
	theirs, ours := regions(t, a, w.ends[1].conn, 16*16)
	posted := 0
	w.ends[0].refuse = func(*verbs.SendWR) error {
		if posted++; posted > 3 {
			return io.ErrShortWrite
		}
		return nil
	}
	ops := reads(ours, theirs, 16)
	if err := a.Do(t.Context(), ops); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
	for i := range ops {
		if ops[i].Err == nil {
			t.Errorf("operation %d has no error", i)
		}
	}
	if err := ours.Close(); !errors.Is(err, ErrInUse) {
		t.Error("closed while the device may use it:", err)
	}
	stop := w.run()
	defer stop()
	_ = a.Shutdown(t.Context())
	if err := ours.Close(); err != nil {
		t.Error(err)
	}
}

// TestBatchEnds checks that a batch, posted or waiting for room, ends with its connection.
func TestBatchEnds(t *testing.T) {
	for name, end := range map[string]func(*world, *Conn) error{
		"close": func(_ *world, a *Conn) error { return a.Close() },
		"cut":   func(w *world, _ *Conn) error { w.cut(); return nil },
		"peer": func(w *world, _ *Conn) error {
			err := w.ends[1].conn.Close()
			for w.ends[1].carry() || w.ends[0].deliver(&w.ends[0].received) {
			}
			return err
		},
	} {
		w, a := hostile(t)
		theirs, ours := regions(t, a, w.ends[1].conn, 200*16)
		errs := make(chan error, 2)
		for range 2 {
			go func() { errs <- a.Do(t.Context(), reads(ours, theirs, 16)) }()
		}
		for waiting := 0; waiting < 2; { // both are in the queue
			<-w.news
			a.mu.Lock()
			waiting = a.batches.len()
			a.mu.Unlock()
			if waiting < 2 {
				w.news.raise()
			}
		}
		if err := end(w, a); err != nil {
			t.Error(err)
		}
		w.settle()
		for range 2 {
			if err := <-errs; err == nil {
				t.Errorf("%s: a batch ended without an error", name)
			}
		}
	}
}

// TestLongOp checks that an operation that is longer than a message may be is performed in pieces.
func TestLongOp(t *testing.T) {
	w, a := hostile(t)
	const length = 5 << 30
	var lengths []uint32
	var addrs []uint64
	w.ends[0].refuse = func(wr *verbs.SendWR) error {
		lengths, addrs = append(lengths, wr.SGL[0].Length), append(addrs, wr.RemoteAddr)
		return io.ErrShortWrite
	}
	long := Span{&Region{domain: a.domain, mem: &fakeMem{w: w}}, 0, length}
	err := a.Read(t.Context(), long, RemoteRegion{Addr: 1 << 40, Length: length, Rights: MayRead}, 0)
	if !errors.Is(err, io.ErrShortWrite) || len(lengths) != 1 || lengths[0] != 1<<30 || addrs[0] != 1<<40 {
		t.Error(err, lengths, addrs)
	}
	_, a = hostile(t)
	a.mu.Lock()
	defer a.mu.Unlock()
	b := &batch{ops: []Op{{Opcode: verbs.OpRDMAWrite, Local: long}, {Opcode: verbs.OpRDMAWrite, Local: long}}}
	a.mu.Unlock()
	_ = a.takeBatch() // makes the queue
	a.mu.Lock()
	var pieces []string
	for b.next < len(b.ops) {
		pieces = append(pieces, fmt.Sprint(b.next, b.off>>30))
		a.addOp(b)
	}
	if got := fmt.Sprint(pieces); got != "[0 0 0 1 0 2 0 3 0 4 1 0 1 1 1 2 1 3 1 4]" || b.left != 10 {
		t.Error(got, b.left)
	}
}
