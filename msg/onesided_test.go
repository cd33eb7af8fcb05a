package msg

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// TestOneSided checks that one-sided operations complete with their own results, and carry the right
// numbers.
func TestOneSided(t *testing.T) {
	w, a := hostile(t)
	b := w.ends[1].conn
	theirs, err := b.Register(make([]byte, 64), MayRead|MayWrite|MayAtomic)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := a.Register([]byte("0123456789abcdef"), 0)
	if err != nil {
		t.Fatal(err)
	}
	stop := w.run()
	defer stop()
	ctx, r := t.Context(), theirs.Remote()
	if err := a.Write(ctx, r, 3, ours.Span(10, 6)); err != nil || string(theirs.Bytes()[3:9]) != "abcdef" {
		t.Errorf("%q, %v", theirs.Bytes(), err)
	}
	if err := a.Read(ctx, ours.Span(0, 2), r, 4); err != nil || string(ours.Bytes()) != "bc23456789abcdef" {
		t.Errorf("%q, %v", ours.Bytes(), err)
	}
	for i := range uint64(3 * opSlots) {
		if v, err := a.FetchAdd(ctx, r, 16, 2); v != 2*i || err != nil {
			t.Fatal(v, err)
		}
	}
	if v, err := a.CompareAndSwap(ctx, r, 16, 6*opSlots, 5); v != 6*opSlots || err != nil {
		t.Error(v, err)
	}
	if v := binary.NativeEndian.Uint64(theirs.Bytes()[16:]); v != 5 {
		t.Error(v)
	}
	if err := a.DoWR(ctx, &verbs.SendWR{Opcode: verbs.OpSend}); !errors.Is(err, verbs.ErrInvalidWR) {
		t.Error("a SEND past the credits:", err)
	}
	_, stranger := hostile(t)
	foreign, err := stranger.Register(make([]byte, 8), 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"memory of another domain": a.Write(ctx, r, 0, foreign.Span(0, 1)),
		"beyond the end":           a.Write(ctx, r, 60, ours.Span(0, 5)),
		"without the right":        a.Read(ctx, ours.Span(0, 5), RemoteRegion{r.Addr, r.Length, r.RKey, MayWrite}, 0),
		"misaligned":               second(a.FetchAdd(ctx, r, 4, 1)),
	} {
		if !errors.Is(err, ErrOutOfBounds) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCancelledOp checks that a canceled call leaves its work request and the memory to the device.
// The completion wakes no later call.
func TestCancelledOp(t *testing.T) {
	w, a := hostile(t)
	theirs, err := w.ends[1].conn.Register([]byte("abcdefgh"), MayRead|MayAtomic)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := a.Register(make([]byte, 8), 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * opSlots { // so that slots are used again
		ctx, cancel := context.WithCancel(t.Context())
		read := make(chan error, 1)
		go func() { read <- a.Read(ctx, ours.Span(0, 8), theirs.Remote(), 0) }()
		<-w.news // it is posted
		cancel()
		if err := <-read; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := ours.Close(); !errors.Is(err, ErrInUse) {
			t.Fatal("closed while the device may use it:", err)
		}
		next := make(chan error, 1)
		go func() { next <- second(a.FetchAdd(t.Context(), theirs.Remote(), 0, 0)) }()
		<-w.news
		w.ends[0].carry() // the READ
		w.ends[0].deliver(&w.ends[0].sent)
		if len(next) > 0 {
			t.Fatal("the completion of the READ woke another call")
		}
		w.settle()
		if err := <-next; err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.news:
		default:
		}
	}
	if err := ours.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpGeneration checks that the completion of an earlier use of a slot does not complete a later
// one.
func TestOpGeneration(t *testing.T) {
	w, a := hostile(t)
	theirs, err := w.ends[1].conn.Register(make([]byte, 8), MayAtomic)
	if err != nil {
		t.Fatal(err)
	}
	add := make(chan error, 1)
	go func() { add <- second(a.FetchAdd(t.Context(), theirs.Remote(), 0, 1)) }()
	<-w.news
	posted := wrid(w.ends[0].sends.head().WRID)
	late := verbs.WC{Status: verbs.StatusSuccess}
	a.mu.Lock()
	a.completeOp(newWRID(a.id, kindOp, posted.gen()-1, posted.slot()), &late)
	a.completeOp(newWRID(a.id, kindOp, posted.gen(), posted.slot()-opSlots), &late)
	outstanding := 0
	a.onesided.Outstanding(func(*opEntry) { outstanding++ })
	if outstanding != 1 {
		t.Error("it took the completion of an earlier one")
	}
	a.mu.Unlock()
	w.settle()
	if err := <-add; err != nil {
		t.Error(err)
	}
}

// TestCloseEndsOps checks that waiting calls end with the connection, even if no completion comes.
func TestCloseEndsOps(t *testing.T) {
	w, a := hostile(t)
	theirs, err := w.ends[1].conn.Register(make([]byte, 8), MayAtomic)
	if err != nil {
		t.Fatal(err)
	}
	add := make(chan error, 1)
	go func() { add <- second(a.FetchAdd(t.Context(), theirs.Remote(), 0, 1)) }()
	<-w.news
	a.mu.Lock() // the call has come as far as it goes
	a.fail(errors.New("an end without completions"))
	a.mu.Unlock()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := <-add; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
