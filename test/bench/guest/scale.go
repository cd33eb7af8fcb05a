//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/test/bench/result"
)

// scale measures what many queue pairs and connections cost, and how that
// grows: rates, set-up time, memory.
func scale(b *bench) error {
	if err := roomForMany(); err != nil {
		return err
	}
	return forEach(b, scaleRows(b), func(r scaleRow, l *link) error {
		before, err := objects(l)
		if err != nil {
			return err
		}
		some := *b
		some.runs = min(b.runs, r.runs)
		if err := r.measure(&some, r, l); err != nil {
			return err
		}
		return noneLeft(l, before)
	})
}

// roomForMany raises the limits of a process: descriptors, of which C's end of a
// connection has two, and local ports.
func roomForMany() error {
	const files = 1 << 18
	return errors.Join(
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files}),
		os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("10000 65000"), 0))
}

// A scaleRow is one number of objects, measured in one way.
type scaleRow struct {
	name    string
	n, c    int // how many, and how many at a time
	runs    int // at most
	drivers []string
	measure func(*bench, scaleRow, *link) error
}

func (r scaleRow) String() string {
	if r.n == 0 {
		return r.name
	}
	return fmt.Sprintf("%s, %d", r.name, r.n)
}

func (r scaleRow) runsOn() []string { return r.drivers }

// scaleRows: each number is ten times the one before, until it takes too long in
// an emulator; then fewer runs have to do.
func scaleRows(b *bench) []scaleRow {
	rows := []scaleRow{{name: "set-up", runs: b.runs, drivers: drivers, measure: measureSetup}}
	for _, s := range []struct{ n, runs int }{{10, 5}, {100, 5}, {1000, 2}, {10000, 1}} {
		if b.check && s.n > 10 || b.quick && s.n > 100 {
			break
		}
		rows = append(rows,
			scaleRow{"bare QPs", s.n, 0, min(s.runs, 2), drivers, measurePairs},
			scaleRow{"idle connections", s.n, 0, min(s.runs, 2), drivers, measureIdle},
			scaleRow{"connect 64 at a time", s.n, 64, s.runs, drivers, measureRate})
		if s.n >= 100 { // over siw, rdma-core 44 can't have two at a time
			rows = append(rows, scaleRow{"idle streams", s.n, 0, 1, []string{"rxe"}, measureStreams})
		}
		if s.n <= 1000 {
			rows = append(rows,
				scaleRow{"connect 1 at a time", s.n, 1, s.runs, drivers, measureRate},
				scaleRow{"connect all at once", s.n, 0, s.runs, drivers, measureLow})
		}
	}
	return rows
}

// twins are the programs that do the same.
func (b *bench) twins(ours, c []string) []twin {
	both := []twin{{"goverbs", append([]string{b.program("scale")}, ours...)}, {"rdma-core", append([]string{b.program(c[0])}, c[1:]...)}}
	if b.alone {
		return both[:1]
	}
	return both
}

// A twin is one implementation's program.
type twin struct {
	impl string
	argv []string
}

// of fills in the fields of samples that the programs don't know.
func of(l *link, impl string, samples []result.Sample) []result.Sample {
	for i := range samples {
		samples[i].Driver, samples[i].Impl = l.driver, impl
	}
	return samples
}
