package perf

import (
	"math"
	"slices"
)

// Latency is the result of a latency test of one size, in µs: of SEND and WRITE
// half of the time there and back, of READ and atomics the whole.
//
// The two slowest messages count nowhere but in Max, which is the second of them:
// so does perftest. Its standard deviation cuts all differences off to whole
// microseconds, this one does not.
type Latency struct {
	Size, Iters int
	Min, Max    float64
	Typical     float64 // the median
	Avg, Stdev  float64
	P99, P999   float64
	// Samples are all of them in the order of time. When the time decided there
	// are none, nor any other figure but Avg and PerSecond.
	Samples   []float64
	PerSecond float64 // exchanges, when the time decided
}

// tail is how many of the slowest are left out.
//
// C: LAT_MEASURE_TAIL
const tail = 2

// Sorted are the samples that count, the fastest first.
func (l *Latency) Sorted() []float64 {
	all := slices.Sorted(slices.Values(l.Samples))
	return all[:len(all)-tail]
}

// newLatency computes the result from the time stamps that were taken before each
// message.
//
// C: print_report_lat
func newLatency(size int, stamps []int64, perSample int) *Latency {
	l := &Latency{Size: size, Iters: len(stamps), Samples: make([]float64, len(stamps)-1)}
	for i := range l.Samples {
		l.Samples[i] = float64(stamps[i+1]-stamps[i]) / float64(perSample) / 1e3
	}
	all := slices.Sorted(slices.Values(l.Samples))
	n := len(all) - tail
	l.Min, l.Max = all[0], all[n]
	l.Typical = median(all[:n])
	for _, v := range all[:n] {
		l.Avg += v / float64(n)
	}
	for _, v := range all[:n] {
		l.Stdev += (v - l.Avg) * (v - l.Avg) / float64(n)
	}
	l.Stdev = math.Sqrt(l.Stdev)
	l.P99, l.P999 = all[rank(n, 0.99)], all[rank(n, 0.999)]
	return l
}

func rank(n int, share float64) int { return int(math.Ceil(float64(n) * share)) }

// median has an upper one for an even number.
func median(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 0 {
		return (sorted[n/2] + sorted[n/2-1]) / 2
	}
	return sorted[n/2]
}

// timedLatency is the result when the time decided.
func timedLatency(size int, exchanges int64, ns int64, perSample int) *Latency {
	seconds := float64(ns) / 1e9
	return &Latency{Size: size, Iters: int(exchanges),
		Avg: seconds * 1e6 / float64(perSample) / float64(exchanges), PerSecond: float64(exchanges) / seconds}
}
