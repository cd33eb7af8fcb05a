//go:build linux

// Command bench compares goverbs with rdma-core, perftest, cgo and iproute2. It builds the measuring
// programs and starts the environments that they run in. It writes docs/performance.md, the results that
// the page is generated from, and all figures in bin/bench.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// options holds the command line.
type options struct {
	suites []string
	runs   int
	check  bool
	accept bool // like check, but record the figures as the new limits
	to     paths
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	names := fs.String("suites", strings.Join(suiteNames(), ","), "which groups of rows to measure, or none; the others keep the figures they have")
	fs.IntVar(&o.runs, "runs", 3, "how often each program runs")
	fs.BoolVar(&o.check, "check", false, "run everything once, briefly, and compare the figures that do not depend on the machine with test/bench/limits.json")
	fs.BoolVar(&o.accept, "accept", false, "with -check: record the figures in test/bench/limits.json")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.to = paths{page: "docs/performance.md", results: "test/bench/results.json", figures: "bin/bench/figures.md"}
	o.suites = strings.FieldsFunc(*names, func(r rune) bool { return r == ',' || r == ' ' })
	for _, s := range o.suites {
		if !slices.Contains(suiteNames(), s) {
			err := fmt.Errorf("no suite %q: expected some of %s", s, strings.Join(suiteNames(), ", "))
			fmt.Fprintln(os.Stderr, "bench:", err)
			return o, err
		}
	}
	if o.check {
		o.runs = 1
	}
	if o.runs < 1 || fs.NArg() > 0 {
		err := errors.New("expected options only, and -runs of at least 1")
		fmt.Fprintln(os.Stderr, "bench:", err)
		return o, err
	}
	return o, nil
}
