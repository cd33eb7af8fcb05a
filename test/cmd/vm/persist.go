//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/test/rig"
)

// persist runs a command, and boots again after a fault of the machine if the
// command is a test binary: then the tests that had not finished are run again. A
// test that failed has finished, so no failure is hidden. Any other command has
// done nobody knows what; it is started again only if it had printed nothing.
func persist(ctx context.Context, k rig.Kernel, c rig.Config) (int, error) {
	seen := &finished{to: c.Stdout, times: make(map[string]int)}
	c.Stdout = seen
	args := c.Args
	for boot := 1; ; boot++ {
		code, err := rig.Run(ctx, k, c)
		var fault *rig.MachineFault
		if !errors.As(err, &fault) || boot == boots || ctx.Err() != nil {
			if seen.failed > 0 && err == nil {
				code = max(code, 1)
			}
			return code, err
		}
		switch {
		case isTest(args):
			seen.endLine()
			fmt.Fprintf(c.Stderr, "vm: %v: %d tests had finished; booting again for the others\n", fault, len(seen.times))
			c.Args = skip(args, seen.times)
		case seen.bytes == 0:
			fmt.Fprintf(c.Stderr, "vm: %v: the command had printed nothing; booting again\n", fault)
		default:
			return 0, err
		}
	}
}

// isTest recognises a test binary by its flags, which go test always passes.
func isTest(args []string) bool { return slices.ContainsFunc(args, isTestFlag) }

func isTestFlag(arg string) bool { return strings.HasPrefix(arg, "-test.") }

// skip leaves out the tests that ran as often as they are to, besides those that
// -test.skip leaves out already.
func skip(args []string, times map[string]int) []string {
	count, without := 1, ""
	first := slices.IndexFunc(args, isTestFlag)
	var rest []string
	for _, a := range args[first:] {
		if v, ok := strings.CutPrefix(a, "-test.count="); ok {
			fmt.Sscan(v, &count)
		}
		if v, ok := strings.CutPrefix(a, "-test.skip="); ok {
			without = v + "|"
			continue
		}
		rest = append(rest, a)
	}
	var done []string
	for name, n := range times {
		if n >= count {
			done = append(done, name)
		}
	}
	if len(done) == 0 {
		return args
	}
	slices.Sort(done)
	pattern := fmt.Sprintf("-test.skip=%s^(%s)$", without, strings.Join(done, "|"))
	return slices.Concat(args[:first], []string{pattern}, rest)
}
