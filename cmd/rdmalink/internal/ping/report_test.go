package ping

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A percentile is the exact one or the end of its bucket, 1.6 % above at most.
func TestPercentile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, most := range []int64{1, 63, 64, 65, 1000, 1e6, 1e12, 1<<63 - 1} {
		var got times
		var all []time.Duration
		for range 1000 {
			d := time.Duration(r.Int64N(most))
			got.add(d)
			all = append(all, d)
		}
		slices.Sort(all)
		for _, p := range []float64{0, 1, 50, 90, 99, 99.9} {
			exact, is := all[int(p*10)], got.percentile(p)
			if is < exact || float64(is-exact) > float64(exact)/64+1 || is > got.max {
				t.Errorf("below %d: percentile %v is %d, want %d", most, p, is, exact)
			}
		}
		if got.min != all[0] || got.max != all[999] || got.percentile(100) != all[999] {
			t.Errorf("from %d to %d, want %d to %d", got.min, got.max, all[0], all[999])
		}
	}
}

// Buckets follow each other without a gap, and each ends before the next begins.
func TestBuckets(t *testing.T) {
	for b := range len(times{}.buckets) - 1 {
		last := end(b)
		if last < 0 {
			break // beyond the longest duration
		}
		if got := bucket(uint64(last)); got != b {
			t.Fatalf("the end %d of bucket %d is in bucket %d", last, b, got)
		}
		if got := bucket(uint64(last) + 1); got != b+1 {
			t.Fatalf("%d is in bucket %d, want %d", last+1, got, b+1)
		}
	}
}

func TestNoTimes(t *testing.T) {
	var none times
	if none.mean() != 0 || none.percentile(50) != 0 {
		t.Error("times of nothing")
	}
	none.add(-1) // the clock went back
	if none.min != 0 || none.n != 1 {
		t.Error(none.min)
	}
}
