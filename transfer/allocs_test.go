//go:build !race

package transfer

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/verbs"
)

// TestAllocatesNothing checks that batches, waits and notifications allocate nothing once they have
// warmed up.
func TestAllocatesNothing(t *testing.T) {
	synctest.Test(t, testAllocations)
}

func testAllocations(t *testing.T) {
	w := newWorld(t, devices["mlx5"], 2, 2)
	client, server := w.engine(0, "", nil), w.engine(1, "server", nil)
	const size = 32 * smallSlice
	ours, theirs := w.register(client, size), w.register(server, size)
	p, remote := w.open(client, "server"), w.remote(theirs)
	ops := make([]Op, 2)
	run := func() {
		ops[0] = Op{Opcode: verbs.OpRDMAWrite, Local: ours.Span(0, size/2), Remote: remote}
		ops[1] = Op{Opcode: verbs.OpRDMARead, Local: ours.Span(size/2, size/2), Remote: remote, Offset: size / 2}
		b, err := p.SubmitNotify(t.Context(), ops, 1)
		if err == nil {
			err = b.Wait()
		}
		if err == nil {
			err = server.Await(t.Context(), 1, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const batches = 100
	for range batches {
		run()
	}
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	before := allocations(t)
	for range batches {
		run()
	}
	for site, n := range allocations(t) {
		if n -= before[site]; n > batches/2 {
			t.Errorf("%d batches allocate %d times in %s", batches, n, site)
		}
	}
}

// allocations returns the number of allocations by each function of the library. The devices in software allocate, too, which
// is why the test can't use AllocsPerRun.
func allocations(t *testing.T) map[string]int64 {
	runtime.GC() // the profile is that of the collection before the last one
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 1<<16)
	n, ok := runtime.MemProfile(records, true)
	if !ok {
		t.Fatalf("%d records", n)
	}
	sites := make(map[string]int64)
	for _, r := range records[:n] {
		for frames, more := runtime.CallersFrames(r.Stack()), true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if strings.Contains(f.Function, "goverbs/transfer.(*") || strings.Contains(f.Function, "goverbs/internal/onesided") {
				sites[f.Function] += r.AllocObjects
			}
			if strings.Contains(f.Function, "goverbs/") {
				break
			}
		}
	}
	return sites
}
