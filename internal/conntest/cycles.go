package conntest

import (
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// Cycles runs cycle 50 times, or as often as GOVERBS_CYCLES says, and fails the test if
// goroutines or memory are left. It first runs cycle a few times, because some things are
// made once.
func Cycles(t *testing.T, cycle func()) {
	t.Helper()
	n := 50
	if more, err := strconv.Atoi(os.Getenv("GOVERBS_CYCLES")); err == nil {
		n = more
	}
	for range 20 {
		cycle()
	}
	goroutines, heap := runtime.NumGoroutine(), heapInUse()
	for range n {
		cycle()
	}
	most := goroutines + n/10 // some serve all connections, and come and go
	if left := fewestGoroutines(most); left > most {
		t.Errorf("%d goroutines, %d before", left, goroutines)
	}
	if grown := heapInUse() - heap; grown > 200_000+20*int64(n) {
		t.Errorf("%d cycles leave %d bytes", n, grown)
	}
}

// fewestGoroutines waits for goroutines that are about to end, until at most that many are left.
func fewestGoroutines(most int) int {
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > most && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return runtime.NumGoroutine()
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // also what finalizers kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
