package s3rdma

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// allocated returns how many bytes have been allocated so far, but for those of the devices in software and of the test itself.
func allocated(t *testing.T) (bytes int64) {
	t.Helper()
	for range 2 { // after which the profile has everything
		runtime.GC()
	}
	records := make([]runtime.MemProfileRecord, 100000)
	n, ok := runtime.MemProfile(records, true)
	if !ok {
		t.Fatalf("%d records", n)
	}
	for i := range records[:n] {
		frames, stack := runtime.CallersFrames(records[i].Stack()), ""
		for {
			f, more := frames.Next()
			stack += f.Function + "\n"
			if !more {
				break
			}
		}
		if !strings.Contains(stack, "/fakeverbs.") && !strings.Contains(stack, "(*world)") && !strings.Contains(stack, "s3rdma.allocated") {
			bytes += records[i].AllocBytes
		}
	}
	return bytes
}

// TestAllocations bounds what a transfer allocates on both sides together. No buffer for the data is among it: they have the caller's slice and
// the memory of the server's pool only.
func TestAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector has pools lose memory")
	}
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 64 << 10
	w := newWorld(t, devices["mlx5"])
	_, url := w.serve(nil)
	c := w.transport(nil)
	const size, turns = 1 << 20, 8
	want, buf := fill(size, 1), make([]byte, size)
	w.put("b/k", want)
	for method, b := range map[string][]byte{http.MethodGet: buf, http.MethodPut: want} {
		move := func() {
			resp, err := c.RoundTrip(w.request(method, url+"/b/k", b))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		move() // the pool has its memory from here on
		before := allocated(t)
		n := testing.AllocsPerRun(turns-1, move)
		bytes := (allocated(t) - before) / turns
		t.Logf("%s of %d bytes: %v allocations, %d bytes", method, size, n, bytes)
		if n > 3000 || bytes > size*3/4 {
			t.Errorf("%s: %v allocations, %d bytes", method, n, bytes)
		}
	}
}
