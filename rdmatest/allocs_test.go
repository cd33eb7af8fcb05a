package rdmatest_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
)

// TestAllocations checks that a round trip takes few allocations.
func TestAllocations(t *testing.T) {
	for kind, most := range map[rdmatest.Kind]float64{rdmatest.RXE: 8, rdmatest.SIW: 8, rdmatest.ERDMA: 10, rdmatest.MLX5: 8} {
		t.Run(kind.String(), func(t *testing.T) {
			x, y := meet(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: kind}), nil)
			one, two := newPlayer(t, x), newPlayer(t, y)
			n := testing.AllocsPerRun(1000, func() {
				if err := errors.Join(one.send(), two.recv(), two.send(), one.recv()); err != nil {
					t.Fatal(err)
				}
			})
			if n > most {
				t.Errorf("%v allocations, at most %v are allowed", n, most)
			}
		})
	}
}

// TestConnectMemory checks that queues are made of the memory of queues that are gone. Allocating it
// again, 200 KiB for a connection of RXE, would take most of the time of connecting.
func TestConnectMemory(t *testing.T) {
	const most, rounds = 120 << 10, 60 // bytes
	for _, k := range rdmatest.Kinds {
		t.Run(k.String(), func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: k})
			meet(t, f, nil) // which keeps the devices open
			connect := func() {
				x, y := meet(t, f, nil)
				if err := errors.Join(x.Close(), y.Close()); err != nil {
					t.Fatal(err)
				}
			}
			for range rounds {
				connect()
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range rounds {
				connect()
			}
			runtime.ReadMemStats(&after)
			if n := (after.TotalAlloc - before.TotalAlloc) / rounds; n > most {
				t.Errorf("%d bytes are allocated for a connection, %d at most are allowed", n, most)
			}
		})
	}
}
