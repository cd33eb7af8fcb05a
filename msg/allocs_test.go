package msg

import (
	"context"
	"testing"
)

// Messages and one-sided operations allocate nothing in the steady state, small or large.
func TestAllocs(t *testing.T) {
	w, a := hostile(t)
	b := w.ends[1].conn
	ctx := context.Background()
	theirs, err := b.Register(make([]byte, 64), MayRead|MayAtomic)
	if err != nil {
		t.Fatal(err)
	}
	small, large := make([]byte, 50), make([]byte, 900)
	transfer := func(text []byte) {
		if err := a.Send(ctx, text); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if len(text) > 64 { // the first call begins the READ, as a concurrent one would
			if _, err := b.tryRecv(); err != errSupply || b.supply() != errAgain {
				t.Fatal(err)
			}
			w.settle()
		}
		m, err := b.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m.Release()
		w.settle()
	}
	if n := testing.AllocsPerRun(200, func() { transfer(small) }); n != 0 {
		t.Errorf("%v allocations a small message", n)
	}
	if n := testing.AllocsPerRun(200, func() { transfer(large) }); n != 0 {
		t.Errorf("%v allocations a large message", n)
	}
	stop := w.run()
	defer stop()
	r := theirs.Remote()
	if n := testing.AllocsPerRun(200, func() {
		if _, err := a.FetchAdd(ctx, r, 0, 1); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations an atomic operation", n)
	}
}
