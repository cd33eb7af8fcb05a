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
	if !o.check && len(o.trials()) == 0 {
		return s.publish(o.to)
	}
	if err := install(ctx, o.trials()); err != nil {
		return err
	}
	if err := build(ctx); err != nil {
		return err
	}
	if o.check {
		return check(ctx, o)
	}
	if slices.Contains(o.suites, "devices") {
		if err := buildBefore(ctx); err != nil {
			return err
		}
	}
	var d document
	s.Machine = thisMachine(ctx)
	err = eachTrial(ctx, o, func(_ trial, p part, rows []*row, err error) error {
		d.add(p, rows)
		s.replace(p, rows)
		// Publish after each trial, so that a later failure loses nothing.
		return errors.Join(err, write(o.to.figures, []byte(d.markdown())), s.publish(o.to))
	})
	if ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "bench: wrote %s and %s\n", o.to.page, o.to.figures)
	}
	return err
}

// eachTrial runs the trials and passes the result of each to came, one at a time. Other trials don't
// affect one whose clock counts instructions, and the check doesn't measure time. Such trials run
// concurrently, one per CPU, after the others.
func eachTrial(ctx context.Context, o options, came func(trial, part, []*row, error) error) error {
	var mu sync.Mutex
	var failed []error
	try := func(t trial) {
		p, rows, err := measure(ctx, t, o)
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil {
			failed = append(failed, came(t, p, rows, err))
		}
	}
	var beside []trial
	for _, t := range o.trials() {
		if t.environment.icount || o.check {
			beside = append(beside, t)
		} else {
			try(t)
		}
	}
	var together sync.WaitGroup
	free := make(chan struct{}, runtime.NumCPU())
	for _, t := range beside {
		together.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			try(t)
		})
	}
	together.Wait()
	return errors.Join(append(failed, ctx.Err())...)
}

// measure runs a trial and returns its part and rows.
func measure(ctx context.Context, t trial, o options) (part, []*row, error) {
	fmt.Fprintf(os.Stderr, "bench: %s in %s\n", t.suite, t.environment.name)
	start := time.Now()
	p := part{Suite: t.suite, Environment: t.environment.name, Runs: o.runs, Commit: commit(ctx),
		Date: start.UTC().Format(time.DateOnly), Command: "go run ./test/bench " + strings.Join(os.Args[1:], " ")}
	samples, missing, err := try(ctx, t, o)
	if crashed(err) { // bin/vm has reported it with the mark that make test counts
		fmt.Fprintln(os.Stderr, "bench: once more")
		samples, missing, err = try(ctx, t, o)
	}
	p.Missing = missing
	if err != nil {
		p.Missing = append(p.Missing, err.Error())
	}
	took := time.Since(start)
	p.Seconds = int(took.Seconds())
	fmt.Fprintf(os.Stderr, "bench: %s in %s: %d figures in %s\n", t.suite, t.environment.name, len(samples), took.Round(time.Second))
	return p, rowsOf(samples), err
}

// trials returns the trials that the options select.
func (o options) trials() (some []trial) {
	for _, t := range trials {
		if o.check && t.checked != nil {
			t.environment = *t.checked
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

// bundle combines the suites of each environment into few boots. If the clock counts instructions it makes
// two, which run concurrently, otherwise one.
func bundle(all []trial) []trial {
	var some []trial
	seen, at := make(map[string]int), make(map[string]int)
	for _, t := range all {
		boots := 1
		if t.environment.icount {
			boots = 2
		}
		boot := fmt.Sprint(t.environment.name, seen[t.environment.name]%boots)
		seen[t.environment.name]++
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
