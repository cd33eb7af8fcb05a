// Package conntest holds helpers for the tests of packages with connections.
package conntest

import (
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
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
	mostBytes := heap + 200_000 + 20*int64(n)
	if left := leastHeap(mostBytes); left > mostBytes {
		t.Errorf("%d cycles leave %d bytes", n, left-heap)
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

// leastHeap is fewestGoroutines for the bytes in use: the few goroutines may hold the memory of connections.
func leastHeap(most int64) int64 {
	for end := time.Now().Add(time.Minute); heapInUse() > most && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	return heapInUse()
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // frees objects that finalizers kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// OpenPD opens a protection domain for the test. Connections that are closed in the background may use it a moment
// longer than the test.
func OpenPD(t *testing.T, d *rdmatest.Device) *uverbs.PD {
	t.Helper()
	dev, err := uverbs.Open(d.Name())
	if err != nil {
		t.Fatal(err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(errors.Join(err, dev.Close()))
	}
	t.Cleanup(func() {
		if err := errors.Join(closeUnused(pd), closeUnused(dev)); err != nil { // CQs are closed after what uses the domain
			t.Error(err)
		}
	})
	return pd
}

// closeUnused closes an object once nothing uses it any more.
func closeUnused(c io.Closer) error {
	err := c.Close()
	for end := time.Now().Add(time.Minute); errors.Is(err, verbs.ErrInUse) && time.Now().Before(end); err = c.Close() {
		time.Sleep(time.Millisecond)
	}
	return err
}

// inGVisor has the calls that gVisor's proxy passes on (pkg/sentry/devices/rdmaproxy/schema.go). POST_SEND is the
// doorbell of rxe, which gVisor does not have.
var inGVisor = []string{
	"INVOKE_WRITE", "GET_CONTEXT", "QUERY_CONTEXT", "QUERY_PORT", "QUERY_GID_TABLE", "QUERY_GID_ENTRY", "QUERY_DEVICE", "QUERY_DEVICE_LEGACY",
	"ASYNC_EVENT_ALLOC", "ALLOC_PD", "PD_DESTROY", "CREATE_AH", "AH_DESTROY", "REG_MR", "REG_DMABUF_MR", "MR_DESTROY", "ALLOC_MW",
	"CQ_CREATE", "CQ_DESTROY", "REQ_NOTIFY_CQ", "QP_CREATE", "QP_DESTROY", "MODIFY_QP", "EX_MODIFY_QP", "QUERY_QP", "OPEN_QP",
	"ATTACH_MCAST", "DETACH_MCAST", "MODIFY_SRQ", "QUERY_SRQ", "POST_SEND",
}

// LikeGVisor makes the kernel of a device refuse what gVisor's proxy does not pass on, such as completion channels,
// SRQs and the connection manager. struck returns how many calls were refused.
func LikeGVisor(f *rdmatest.Fabric, d *rdmatest.Device) (struck func() int) {
	var refused []*rdmatest.Fault
	for _, call := range fakeverbs.CallNames() {
		if slices.Contains(inGVisor, call) {
			continue
		}
		for range 20 { // a fault strikes once
			refused = append(refused, d.Fail(rdmatest.Call(call), 0, syscall.EINVAL).Optional())
		}
	}
	for cmd := range 25 {
		refused = append(refused, f.FailCM(rdmatest.CMCommand(cmd), syscall.ENOENT).Optional())
	}
	return func() (n int) {
		for _, fault := range refused {
			if fault.Struck() {
				n++
			}
		}
		return n
	}
}
