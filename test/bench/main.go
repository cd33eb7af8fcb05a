//go:build linux

// Command bench measures goverbs beside rdma-core, perftest, cgo and iproute2:
// it builds the measuring programs, starts the vehicles that they run in, and
// writes the tables, plots and raw figures of docs/performance.md.
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

// options are the command line.
type options struct {
	suites []string
	runs   int
	quick  bool
	check  bool
	accept bool   // check, and make what came out the limits
	docs   string // where the results go
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
	fs.BoolVar(&o.quick, "quick", false, "fewer rows and shorter runs")
	fs.BoolVar(&o.check, "check", false, "run everything once, briefly, and hold what does not depend on the machine to test/bench/limits.json")
	fs.BoolVar(&o.accept, "accept", false, "with -check: write test/bench/limits.json anew")
	fs.StringVar(&o.docs, "docs", "", "directory to write performance.md, performance.json and the plots to (default docs; with -quick bin/bench/docs)")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.docs == "" {
		o.docs = "docs"
		if o.quick {
			o.docs = "bin/bench/docs"
		}
	}
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
