package perf

import (
	"math"
	"testing"
)

// TestLatency checks the columns against perftest's definitions.
func TestLatency(t *testing.T) {
	stamps := []int64{0}
	for i := 1; i <= 102; i++ { // 2, 4 … 204 µs there and back
		stamps = append(stamps, stamps[i-1]+int64(2000*(103-i)))
	}
	l := newLatency(7, stamps, 2)
	for name, got := range map[string][2]float64{
		"size": {float64(l.Size), 7}, "iterations": {float64(l.Iters), 103}, "min": {l.Min, 1}, "max": {l.Max, 101},
		"typical": {l.Typical, 50.5}, "avg": {l.Avg, 50.5}, "99": {l.P99, 100}, "99.9": {l.P999, 101},
		"stdev": {l.Stdev, math.Sqrt((100*100 - 1) / 12.)}, "sorted": {float64(len(l.Sorted())), 100}, "first sample": {l.Samples[0], 102},
	} {
		if math.Abs(got[0]-got[1]) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got[0], got[1])
		}
	}
	if whole := newLatency(7, stamps, 1); whole.Min != 2 {
		t.Errorf("%+v", whole)
	}
	if few := newLatency(2, []int64{0, 1000, 3000, 4000, 9000}, 1); few.Typical != 1 || few.Max != 2 || few.P999 != 2 {
		t.Errorf("%+v", few)
	}
}

func TestTimedLatency(t *testing.T) {
	if l := timedLatency(2, 1000, 2e9, 2); l.Avg != 1000 || l.PerSecond != 500 || l.Iters != 1000 {
		t.Errorf("%+v", l)
	}
}
