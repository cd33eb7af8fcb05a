//go:build linux

// Command guest is the part of the benchmark that runs inside an environment. It creates the links, runs the
// measuring programs of the named suites in turn and prints their samples, one JSON object per line. It
// logs its steps to standard error. The part on the host, ../, builds the programs first.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goverbs/goverbs/test/bench/result"
)

// suites maps the names of suites to the functions that run them.
var suites = map[string]func(*bench) error{
	"ring":   ring,
	"mlx5":   mlx5,
	"efa":    efa,
	"dc":     dc,
	"calls":  calls,
	"perf":   perf,
	"scale":  scale,
	"stream": stream,

	"devices": devices,
}

func main() {
	b := &bench{ctx: context.Background(), out: json.NewEncoder(os.Stdout), log: os.Stderr, links: make(map[string]*link)}
	fs := flag.NewFlagSet("guest", flag.ContinueOnError)
	fs.IntVar(&b.runs, "runs", 3, "how often each program runs")
	fs.BoolVar(&b.check, "check", false, "only what does not depend on the machine, once")
	fs.StringVar(&b.bin, "bin", "bin", "directory of rdmalink; the benchmark's programs are in bench below it")
	fs.StringVar(&b.environment, "environment", "", "name of the environment, for the samples")
	fs.BoolVar(&b.icount, "icount", false, "in this environment a nanosecond is an instruction")
	fs.Func("only", "regular expression for the rows to run", func(s string) (err error) { b.only, err = regexp.Compile(s); return err })
	if err := fs.Parse(os.Args[1:]); err != nil {
		os.Exit(2)
	}
	if err := run(b, fs.Args()); err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(os.Stderr, result.Missing+strings.TrimSpace(line))
		}
		os.Exit(1)
	}
}

// run runs suites. If one fails, it continues with the others.
func run(b *bench, names []string) error {
	var all []error
	for _, name := range names {
		suite, ok := suites[name]
		if !ok {
			return fmt.Errorf("no suite %q: expected one of %s", name, strings.Join(suiteNames(), ", "))
		}
		if err := b.run(name, suite); err != nil {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// checkPatience limits the time of a suite in a check, which usually takes half a minute, so that the
// error names the suite that hangs.
const checkPatience = 10 * time.Minute

func (b *bench) run(name string, suite func(*bench) error) error {
	b.suite = name
	if !b.check {
		return suite(b)
	}
	some := *b
	var cancel context.CancelFunc
	some.ctx, cancel = context.WithTimeout(b.ctx, checkPatience)
	defer cancel()
	return suite(&some)
}

func suiteNames() []string {
	var names []string
	for name := range suites {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
