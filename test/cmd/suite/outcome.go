//go:build linux

package main

import (
	"fmt"
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

// tests describes how many tests passed.
func (o *outcome) tests() string {
	if o.Cached > 0 {
		return fmt.Sprintf("%d (%d packages cached)", o.Passed, o.Cached)
	}
	return fmt.Sprint(o.Passed)
}
