package ping

import (
	"math/bits"
	"time"
)

// times counts durations, in a few kilobytes however many there are. A percentile is the
// upper end of its bucket, at most 1.6 % too long.
type times struct {
	n        int
	min, max time.Duration
	sum      time.Duration
	buckets  [64 << subBits]int
}

// subBits is the number of bits of a duration, after its first set bit, that select a
// bucket.
const subBits = 6

func (t *times) add(d time.Duration) {
	d = max(d, 0)
	if t.n == 0 || d < t.min {
		t.min = d
	}
	t.max = max(t.max, d)
	t.n++
	t.sum += d
	t.buckets[bucket(uint64(d))]++
}

// bucket has one duration each below 1<<subBits, and then 1<<subBits buckets from power to
// power.
func bucket(d uint64) int {
	shift := max(bits.Len64(d)-subBits-1, 0)
	return shift<<subBits + int(d>>shift)
}

// end is the longest duration in a bucket.
func end(bucket int) time.Duration {
	shift := max(bucket>>subBits-1, 0)
	return time.Duration((uint64(bucket-shift<<subBits)+1)<<shift - 1)
}

// percentile is the duration that p of a hundred don't exceed.
func (t *times) percentile(p float64) time.Duration {
	rank := int(p / 100 * float64(t.n))
	for i, n := range t.buckets {
		if rank -= n; rank < 0 {
			return min(end(i), t.max)
		}
	}
	return t.max
}

func (t *times) mean() time.Duration {
	if t.n == 0 {
		return 0
	}
	return t.sum / time.Duration(t.n)
}
