//go:build linux

// Command mutate changes the source in one place at a time and prints the changes that the
// unit tests notice. The changes are written down in the directory patches: stores weakened,
// order, cleanup. It runs at the top of the module and leaves the tree as it is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

const patchDir = "test/cmd/mutate/patches"

// enough is how many mutants in a hundred the tests have to notice.
const enough = 90

type options struct {
	only *regexp.Regexp
	own  bool
	pkgs []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(mutate(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func mutate(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	mutants, err := choose(o)
	if err == nil {
		var ok bool
		if ok, err = tryAll(ctx, &judge{own: o.own}, mutants, stdout); err == nil && ok {
			return 0
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "mutate:", err)
	}
	return 1
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	fs := flag.NewFlagSet("mutate", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintf(stderr, "usage: mutate [-run REGEXP] [-own] [PACKAGE...]\n\nPackages are directories: uverbs provider/rxe\n\n")
		fs.PrintDefaults()
	}
	fs.Func("run", "only mutants whose line in the report matches", func(s string) error {
		o.only, err = regexp.Compile(s)
		return err
	})
	fs.BoolVar(&o.own, "own", false, "run the tests of the changed package only, which is quicker")
	err = fs.Parse(args)
	if o.pkgs = fs.Args(); len(o.pkgs) == 0 {
		o.pkgs = packages
	}
	if err == nil && !isTop() {
		err = errors.New("run it at the top of the module")
		fmt.Fprintln(stderr, "mutate:", err)
	}
	return o, err
}
