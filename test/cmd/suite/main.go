//go:build linux

// Command suite runs the rows of make test and make test-all side by side. It then prints how long each took, its
// CPU time, how many tests ran, which were slowest, and which were skipped and why. A row in which
// a few tests fail runs a second time, and the table names them. As make stress
// it runs the rows again and again beside busy loops, for a given time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const usage = `usage: suite [-release] [-for TIME [-file FILE]] [-hogs N] [-shuffle] [-flags FLAGS] [ROW...]

Run the named rows, or else those of make test, one per CPU at a time. With -release, run those
that make test-all adds. A row is a target of the Makefile, for vm with a kernel: vm-6.12.
Output is kept in %s. With -for, run them again and again, append each result to FILE,
and print how often what failed since FILE began.

`

// logs is where each row's output goes.
const logs = "bin/logs"

type options struct {
	time    time.Duration // for stress; zero means one run
	file    string        // of stress
	hogs    int
	shuffle bool
	flags   string // for go test
	rows    []row
}

func main() {
	// The busy loops die with the thread that started them.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if err := os.MkdirAll(logs, 0o777); err != nil {
		fmt.Fprintln(stderr, "suite:", err)
		return 1
	}
	stop, err := startHogs(ctx, o.hogs)
	if err != nil {
		fmt.Fprintln(stderr, "suite:", err)
		return 1
	}
	defer stop()
	if o.time > 0 {
		code, err := stress(ctx, o, stdout)
		if err != nil {
			fmt.Fprintln(stderr, "suite:", err)
			return 1
		}
		return code
	}
	// CI takes no result of an earlier run, but a row that runs again takes those of its first.
	if os.Getenv("CI") != "" {
		if out, err := exec.CommandContext(ctx, "go", "clean", "-testcache").CombinedOutput(); err != nil {
			fmt.Fprintf(stderr, "suite: go clean -testcache: %v: %s", err, out)
			return 1
		}
	}
	start := time.Now()
	all := together(ctx, o, 0, stdout)
	table(stdout, all)
	code := total(stdout, all, time.Since(start))
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "suite: interrupted")
		return 1
	}
	return code
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("suite", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() { fmt.Fprintf(stderr, usage, logs); fs.PrintDefaults() }
	fs.DurationVar(&o.time, "for", 0, "run the rows again and again for this time")
	fs.StringVar(&o.file, "file", "stress.jsonl", "file that -for appends results to")
	fs.IntVar(&o.hogs, "hogs", 0, "how many busy loops run beside")
	fs.BoolVar(&o.shuffle, "shuffle", false, "run the tests of a package in random order")
	release := fs.Bool("release", false, "run the rows that make test-all adds")
	fs.StringVar(&o.flags, "flags", "", "flags for go test, such as '-run TestDial'")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	var err error
	if fs.NArg() == 0 {
		o.rows = of(*release)
	} else if o.rows, err = choose(fs.Args()); err != nil {
		fmt.Fprintln(stderr, "suite:", err)
	}
	return o, err
}

// choose finds rows by name; vm stands for all of its kernels.
func choose(names []string) ([]row, error) {
	var some []row
	for _, name := range names {
		before := len(some)
		for _, r := range rows {
			if r.name == name || strings.HasPrefix(r.name, name+"-") {
				some = append(some, r)
			}
		}
		if len(some) == before {
			return nil, fmt.Errorf("no row %q: expected some of %s", name, rowNames())
		}
	}
	return some, nil
}
