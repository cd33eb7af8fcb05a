//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/goverbs/goverbs/test/bench/result"
)

// run does what the command line asks for.
func run(ctx context.Context, o options) error {
	if err := build(ctx); err != nil {
		return err
	}
	samples, err := measure(ctx, o)
	fmt.Fprintf(os.Stderr, "bench: %d samples\n", len(samples))
	return err
}

// measure makes all trips that the options ask for.
func measure(ctx context.Context, o options) ([]result.Sample, error) {
	var samples []result.Sample
	var failed []error
	for _, t := range trips {
		if !wanted(t, o) || ctx.Err() != nil {
			continue
		}
		start := time.Now()
		fmt.Fprintf(os.Stderr, "bench: %s in %s\n", t.suite, t.vehicle.name)
		err := travel(ctx, t, o, func(s result.Sample) { samples = append(samples, s) })
		if err != nil {
			failed = append(failed, err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s in %s took %s\n", t.suite, t.vehicle.name, time.Since(start).Round(time.Second))
	}
	return samples, errors.Join(append(failed, ctx.Err())...)
}

func wanted(t trip, o options) bool {
	if o.check && !t.checked {
		return false
	}
	for _, s := range o.suites {
		if s == t.suite {
			return true
		}
	}
	return false
}
