//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// run does what the command line asks for.
func run(ctx context.Context, o options) error {
	if err := install(ctx, o.trips()); err != nil {
		return err
	}
	if err := build(ctx); err != nil {
		return err
	}
	if o.check {
		return check(ctx, o)
	}
	d, err := readDocument(filepath.Join(o.docs, "performance.json"))
	if err != nil {
		return err
	}
	if len(o.trips()) > 0 {
		d.Machine = thisMachine(ctx)
	} else if err := publish(d, o.docs); err != nil {
		return err
	}
	err = eachTrip(ctx, o, func(_ trip, p part, rows []*row, err error) error {
		d.replace(p, rows)
		// After each, so that what comes next can't take it away.
		return errors.Join(err, publish(d, o.docs))
	})
	if ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "bench: wrote", filepath.Join(o.docs, "performance.md"))
	}
	return err
}

// eachTrip makes the trips and passes on what came of each, one at a time. Where the
// clock counts instructions, company changes no figure, and the check looks at no time;
// so those trips go together, as many at once as there are CPUs, when the others are over.
func eachTrip(ctx context.Context, o options, came func(trip, part, []*row, error) error) error {
	var mu sync.Mutex
	var failed []error
	travel := func(t trip) {
		p, rows, err := measure(ctx, t, o)
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil {
			failed = append(failed, came(t, p, rows, err))
		}
	}
	var beside []trip
	for _, t := range o.trips() {
		if t.vehicle.icount || o.check {
			beside = append(beside, t)
		} else {
			travel(t)
		}
	}
	var together sync.WaitGroup
	free := make(chan struct{}, runtime.NumCPU())
	for _, t := range beside {
		together.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			travel(t)
		})
	}
	together.Wait()
	return errors.Join(append(failed, ctx.Err())...)
}

// measure makes a trip and says what came of it.
func measure(ctx context.Context, t trip, o options) (part, []*row, error) {
	fmt.Fprintf(os.Stderr, "bench: %s in %s\n", t.suite, t.vehicle.name)
	start := time.Now()
	p := part{Suite: t.suite, Vehicle: t.vehicle.name, Runs: o.runs, Commit: commit(ctx),
		Date: start.UTC().Format(time.DateOnly), Command: "go run ./test/bench " + strings.Join(os.Args[1:], " ")}
	samples, missing, err := travel(ctx, t, o)
	if broke(err) { // bin/vm has said so, with the mark that make test counts
		fmt.Fprintln(os.Stderr, "bench: once more")
		samples, missing, err = travel(ctx, t, o)
	}
	p.Missing = missing
	if err != nil {
		p.Missing = append(p.Missing, err.Error())
	}
	took := time.Since(start)
	p.Seconds = int(took.Seconds())
	fmt.Fprintf(os.Stderr, "bench: %s in %s: %d figures in %s\n", t.suite, t.vehicle.name, len(samples), took.Round(time.Second))
	return p, rowsOf(samples), err
}

// trips are those that are asked for.
func (o options) trips() (some []trip) {
	for _, t := range trips {
		if o.check && t.checked != nil {
			t.vehicle = *t.checked
		}
		if slices.Contains(o.suites, t.suite) && (t.checked != nil || !o.check) {
			some = append(some, t)
		}
	}
	if o.check {
		return bundle(some)
	}
	return some
}

// bundle shares the suites of each vehicle out among few boots: two where the clock counts
// instructions, since those run side by side.
func bundle(all []trip) []trip {
	var some []trip
	seen, at := make(map[string]int), make(map[string]int)
	for _, t := range all {
		boots := 1
		if t.vehicle.icount {
			boots = 2
		}
		boot := fmt.Sprint(t.vehicle.name, seen[t.vehicle.name]%boots)
		seen[t.vehicle.name]++
		i, ok := at[boot]
		if !ok {
			at[boot] = len(some)
			some = append(some, t)
			continue
		}
		some[i].suite += " " + t.suite
		some[i].mem = max(some[i].mem, t.mem)
	}
	return some
}
