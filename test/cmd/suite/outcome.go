//go:build linux

package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/goverbs/goverbs/test/gotest"
	"github.com/goverbs/goverbs/test/rig"
)

// An outcome is the result of one run of a row.
type outcome struct {
	gotest.Results
	row    row
	took   time.Duration
	cpu    time.Duration // of all its processes
	err    error         // of the command
	log    string
	faults []string // of the machine
	blamed int      // faults in a module under test
	once   []string // tests that failed in the first run of two
}

// add takes one line of a row's output.
func (o *outcome) add(line string) {
	e := gotest.Parse(line)
	if strings.Contains(e.Output, rig.FaultMark) {
		o.faults = append(o.faults, strings.TrimSpace(e.Output))
		if strings.Contains(e.Output, rig.KnownFault) {
			o.blamed++
		}
	}
	o.Results.Add(e)
}

// ok is also false for a command that failed without a failed test.
func (o *outcome) ok() bool { return o.err == nil && len(o.Failed) == 0 }

// mostAgain is how many tests of a row may fail for the row to run again.
const mostAgain = 3

// again returns the options of a second run, and false if there should be none. The row runs again because of tests that
// fail seldom: one of thousands in each run would hide all others. The table names the tests. make stress looks for them,
// and runs nothing again. In a row of one command that caches nothing, only the failed tests run, unless one of them ended a
// program that has more.
func (o *outcome) again(before options) (options, bool) {
	var names []string
	whole := !o.row.single
	for _, key := range o.Failed {
		if _, name, _ := strings.Cut(key, " "); !strings.Contains(name, "/") {
			names = append(names, name)
		}
		whole = whole || died.MatchString(o.Output(key))
	}
	if !whole {
		before.flags = strings.TrimSpace(before.flags + " -run '^(" + strings.Join(names, "|") + ")$$'") // make reads the dollars
	}
	return before, before.time == 0 && 0 < len(names) && len(names) <= mostAgain
}

// died matches how a test program ends before its last test.
var died = regexp.MustCompile(`(?m)^(panic|fatal error): `)

// after returns the outcome of a second run, of all tests or of those that failed in the first.
func (o outcome) after(first *outcome, all bool) outcome {
	o.once = first.Failed
	o.took, o.cpu = o.took+first.took, o.cpu+first.cpu
	o.faults, o.blamed = append(first.faults, o.faults...), o.blamed+first.blamed
	if !all {
		o.Passed, o.Cached, o.Skipped, o.Times = o.Passed+first.Passed, first.Cached, first.Skipped, append(o.Times, first.Times...)
	}
	return o
}

// tests describes how many tests passed.
func (o *outcome) tests() string {
	if o.Cached > 0 {
		return fmt.Sprintf("%d (%d packages cached)", o.Passed, o.Cached)
	}
	return fmt.Sprint(o.Passed)
}
