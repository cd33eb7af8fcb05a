//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	var failed []error
	for _, t := range o.trips() {
		p, rows, err := measure(ctx, t, o)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = append(failed, err)
		}
		d.replace(p, rows)
		// After each, so that what comes next can't take it away.
		if err := publish(d, o.docs); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stderr, "bench: wrote", filepath.Join(o.docs, "performance.md"))
	return errors.Join(failed...)
}

// measure makes a trip and says what came of it.
func measure(ctx context.Context, t trip, o options) (part, []*row, error) {
	fmt.Fprintf(os.Stderr, "bench: %s in %s\n", t.suite, t.vehicle.name)
	start := time.Now()
	p := part{Suite: t.suite, Vehicle: t.vehicle.name, Runs: o.runs, Commit: commit(ctx),
		Date: start.UTC().Format(time.DateOnly), Command: "go run ./test/bench " + strings.Join(os.Args[1:], " ")}
	samples, missing, err := travel(ctx, t, o)
	if died(err) {
		fmt.Fprintln(os.Stderr, "bench: the machine died, which QEMU's do now and then; once more")
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
		if slices.Contains(o.suites, t.suite) && (t.checked || !o.check) {
			some = append(some, t)
		}
	}
	return some
}
