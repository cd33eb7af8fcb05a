//go:build vm

package kit

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/pprof"
	"testing"

	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// NoLeak fails the test if it leaves kernel objects, mappings, descriptors or
// goroutines behind. Objects may outlive their Close: the kernel frees connections
// in the background, and so does a cancelled Dial. Call NoLeak when the links exist,
// before any other object is created.
func NoLeak(t *testing.T) {
	t.Helper()
	before := held(t)
	t.Cleanup(func() {
		var left map[string]uint64
		if Eventually(func() bool { left = leaked(before, held(t)); return len(left) == 0 }) {
			return
		}
		var profiles bytes.Buffer
		pprof.Lookup("goroutine").WriteTo(&profiles, 1)
		t.Errorf("left behind: %v\n%s", left, &profiles)
	})
}

// leaked returns the counts that have grown.
func leaked(before, after map[string]uint64) map[string]uint64 {
	left := make(map[string]uint64)
	for what, n := range after {
		if n > before[what] {
			left[what] = n - before[what]
		}
	}
	return left
}

// held counts everything that can leak.
func held(t *testing.T) map[string]uint64 {
	t.Helper()
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]uint64{
		"descriptor": uint64(len(descriptors)),
		"mapping":    uint64(regions.Live()),
		"goroutine":  uint64(runtime.NumGoroutine()),
	}
	maps.Copy(all, kernelObjects(t))
	return all
}

// kernelObjects counts the RDMA objects of all devices.
func kernelObjects(t *testing.T) map[string]uint64 {
	t.Helper()
	var nl netlinkrdma.Client
	devices, err := nl.Devices()
	if err != nil {
		t.Fatal(err)
	}
	objects := make(map[string]uint64)
	for _, d := range devices {
		resources, err := nl.Resources(d.Index, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range resources {
			objects[fmt.Sprintf("%s of %s", r.Kind, d.Name)] = r.Count
		}
	}
	return objects
}
