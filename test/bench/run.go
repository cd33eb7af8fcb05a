//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// run runs the suites of the command line. Without suites it only generates the page from the recorded
// results.
func run(ctx context.Context, o options) error {
	s, err := readResults(o.to.results)
	if err != nil {
		return err
	}
	if !o.check && len(o.trips()) == 0 {
		return s.publish(o.to)
	}
	if err := install(ctx, o.trips()); err != nil {
		return err
	}
	if err := build(ctx); err != nil {
		return err
	}
	if o.check {
		return check(ctx, o)
	}
	d, err := readDocument(o.to.figures + ".json")
	if err != nil {
		return err
	}
	s.Machine = thisMachine(ctx)
	err = eachTrip(ctx, o, func(_ trip, p part, rows []*row, err error) error {
		d.replace(p, rows)
		s.replace(p, rows)
		// Publish after each trip, so that a later failure loses nothing.
		return errors.Join(err, d.publish(o.to), s.publish(o.to))
	})
	if ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "bench: wrote %s and %s.md\n", o.to.page, o.to.figures)
	}
	return err
}

// eachTrip makes the trips and passes the result of each to came, one at a time. Other trips don't
// affect one whose clock counts instructions, and the check doesn't measure time. Such trips run
// concurrently, one per CPU, after the others.
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

// measure makes a trip and returns its part and rows.
func measure(ctx context.Context, t trip, o options) (part, []*row, error) {
	fmt.Fprintf(os.Stderr, "bench: %s in %s\n", t.suite, t.vehicle.name)
	start := time.Now()
	p := part{Suite: t.suite, Vehicle: t.vehicle.name, Runs: o.runs, Commit: commit(ctx),
		Date: start.UTC().Format(time.DateOnly), Command: "go run ./test/bench " + strings.Join(os.Args[1:], " ")}
	samples, missing, err := travel(ctx, t, o)
	if broke(err) { // bin/vm has reported it with the mark that make test counts
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

// trips returns the trips that the options select.
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

// bundle combines the suites of each vehicle into few boots. If the clock counts instructions it makes
// two, which run concurrently, otherwise one.
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
