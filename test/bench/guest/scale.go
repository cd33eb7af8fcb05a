//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/test/bench/result"
)

// scale measures rates and memory for different numbers of connections.
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

// roomForMany raises the limits of descriptors and local ports. In C each end of a connection has two
// descriptors.
func roomForMany() error {
	const files = 1 << 18
	return errors.Join(
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files}),
		os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("10000 65000"), 0))
}

// A scaleRow is a measurement with a number of objects.
type scaleRow struct {
	name    string
	n, c    int // number of objects, and of those at a time
	runs    int // maximum number of runs
	drivers []string
	measure func(*bench, scaleRow, *link) error
}

func (r scaleRow) String() string {
	return fmt.Sprintf("%s, %d", r.name, r.n)
}

func (r scaleRow) runsOn() []string { return r.drivers }

// scaleRows returns the rows of the suite scale. Each number is ten times the previous one. The largest
// take long in an emulator, so they have fewer runs.
func scaleRows(b *bench) []scaleRow {
	var rows []scaleRow
	for _, s := range []struct{ n, runs int }{{10, 5}, {100, 5}, {1000, 2}, {10000, 1}} {
		if b.check && s.n > 10 {
			break
		}
		rows = append(rows,
			scaleRow{"idle connections", s.n, 0, min(s.runs, 2), drivers, measureIdle},
			scaleRow{"connect 64 at a time", s.n, 64, s.runs, drivers, measureRate})
		if s.n <= 1000 {
			rows = append(rows, scaleRow{"connect 1 at a time", s.n, 1, s.runs, drivers, measureRate})
		}
	}
	return rows
}

// twins returns the programs of both implementations.
func (b *bench) twins(args ...string) []twin {
	return []twin{{"goverbs", append([]string{b.program("scale")}, args...)}, {"rdma-core", append([]string{b.program("c-scale")}, args...)}}
}

// A twin is the program of one implementation.
type twin struct {
	impl string
	argv []string
}

// of fills in the fields of samples that programs leave empty.
func of(l *link, impl string, samples []result.Sample) []result.Sample {
	for i := range samples {
		samples[i].Driver, samples[i].Impl = l.driver, impl
	}
	return samples
}
