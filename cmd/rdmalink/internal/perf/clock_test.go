package perf

import "testing"

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
