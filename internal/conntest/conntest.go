// Package conntest holds helpers for the tests of packages with connections.
package conntest

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
)

// Removed removes a device while calls wait. All of them must return an error that matches
// rdmacm.ErrDeviceRemoved.
func Removed(t *testing.T, d *rdmatest.Device, waits ...func() error) {
	t.Helper()
	ends := make(chan error)
	for _, wait := range waits {
		go func() { ends <- wait() }()
	}
	d.Remove()
	for range waits {
		if err := <-ends; !errors.Is(err, rdmacm.ErrDeviceRemoved) {
			t.Error(err)
		}
	}
}

// Cycles runs cycle 50 times, or $GOVERBS_CYCLES times, abreast of them concurrently. It fails the
// test if one fails, or if goroutines or memory are left. It first runs cycle a few times,
// because some objects are created once.
func Cycles(t *testing.T, abreast int, cycle func() error) {
	t.Helper()
	n := 50
	if more, err := strconv.Atoi(os.Getenv("GOVERBS_CYCLES")); err == nil {
		n = more
	}
	run(t, 20, abreast, cycle)
	goroutines, heap := runtime.NumGoroutine(), heapInUse()
	run(t, n, abreast, cycle)
	most := goroutines + n/10 // a few goroutines that serve all connections come and go
	if left := fewestGoroutines(most); left > most {
		t.Errorf("%d goroutines, %d before", left, goroutines)
	}
	if grown := heapInUse() - heap; grown > 200_000+20*int64(n) {
		t.Errorf("%d cycles leave %d bytes", n, grown)
	}
}

func run(t *testing.T, n, abreast int, cycle func() error) {
	t.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	failed := make([]error, abreast)
	var all sync.WaitGroup
	for i := range failed {
		all.Go(func() {
			for failed[i] == nil && left.Add(-1) >= 0 {
				failed[i] = cycle()
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
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
	runtime.GC() // frees objects that finalizers kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
