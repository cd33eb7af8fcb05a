package perf

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/perftest"
)

func TestBandwidth(t *testing.T) {
	b := newBandwidth(1000, 8, 4e9)
	if b.Average != 2000 || b.Rate != 2 {
		t.Errorf("%+v", b)
	}
	// Two at a time each second, which complete a second later, but for the
	// third pair: after half of one.
	posted := []int64{0, 0, 1e9, 1e9, 2e9, 2e9, 3e9, 3e9}
	completed := []int64{0, 1e9, 0, 2e9, 0, 2.5e9, 0, 4e9}
	if b.findPeak(posted, completed, 2); b.Peak != 4000 {
		t.Errorf("%v", b.Peak)
	}
	if b.findPeak([]int64{5}, []int64{5}, 1); math.IsInf(b.Peak, 0) { // JSON can't hold it
		t.Error("a message that took no time has an infinite bandwidth")
	}
}

// TestBandwidthReports checks that an end adds the result that the other end
// reports, in either unit.
func TestBandwidthReports(t *testing.T) {
	for _, o := range []Options{{}, {Gbits: true}} {
		b := &Bandwidth{Size: 64, Messages: 100, Peak: 3 << 20, Average: 2 << 20, Rate: 5e6}
		report := b.report(o.Unit())
		got := fromReport(&report, o.Unit())
		near := cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) < 1e-6*math.Abs(x) })
		if diff := cmp.Diff(b, got, near); diff != "" {
			t.Error(diff)
		}
		if b.add(&report, o.Unit()); math.Abs(b.Average-4<<20) > 1 || math.Abs(b.Rate-1e7) > 1 {
			t.Errorf("%+v", b)
		}
	}
	want := perftest.Report{Size: 64, Iterations: 1, Peak: 8, Average: 4, Rate: 0.5}
	if diff := cmp.Diff(want, (&Bandwidth{64, 1, 8 << 20, 4 << 20, 5e5}).report(1<<20)); diff != "" {
		t.Error(diff)
	}
}
