package perf

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// BenchmarkNow measures the cost of a time stamp.
func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		now()
	}
}

func BenchmarkLatency(b *testing.B) {
	stamps := make([]int64, 20000)
	for i := range stamps {
		stamps[i] = int64(i*i%977 + i*1000)
	}
	for b.Loop() {
		newLatency(2, stamps, 2)
	}
}

// TestWatchProgress checks that a run ends when it has made no progress for the
// whole limit, and not sooner.
func TestWatchProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		r := &run{done: new(Progress)}
		r.ctx, r.cancel = context.WithCancelCause(t.Context())
		r.done.n.Add(5)
		go r.watchProgress(10*time.Second, why)
		time.Sleep(9 * time.Second)
		r.done.n.Add(1)
		time.Sleep(10 * time.Second)
		if err := context.Cause(r.ctx); err != nil {
			t.Errorf("%v, 10 s after it moved", err)
		}
		time.Sleep(2 * time.Second)
		if err := context.Cause(r.ctx); err != why {
			t.Errorf("%v, when it had not moved for a while", err)
		}
	})
}

// TestWatchProgressNever checks the same for a run that never makes progress.
func TestWatchProgressNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why, begin := errors.New("why"), time.Now()
		r := &run{done: new(Progress)}
		r.ctx, r.cancel = context.WithCancelCause(t.Context())
		go r.watchProgress(10*time.Second, why)
		<-r.ctx.Done()
		if took := time.Since(begin); context.Cause(r.ctx) != why || took != 10*time.Second {
			t.Errorf("%v after %v", context.Cause(r.ctx), took)
		}
	})
}
