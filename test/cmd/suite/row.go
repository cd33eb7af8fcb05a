//go:build linux

package main

import (
	"slices"
	"strings"

	"github.com/goverbs/goverbs/test/rig"
)

// A row is a target of the Makefile.
type row struct {
	name   string
	target string
	vars   []string
	beside bool // gives way to the rows that have guests
	waits  bool // most of its time, because its guest runs at the speed of the host
}

// rows are what make test runs, in the order to start them: the longest first.
var rows = allRows()

// without are the rows that have no guests.
var without = []string{"lint", "unit", "race", "sandbox"}

func allRows() []row {
	var all []row
	for _, series := range rig.Series {
		all = append(all, row{name: "vm-" + series, target: "vm", vars: []string{"KERNELS=" + series}, waits: series == rig.UML})
	}
	for _, target := range []string{"sandbox", "race", "rig", "lint", "unit", "bench-check", "vmrace", "abi"} {
		all = append(all, row{name: target, target: target, beside: slices.Contains(without, target)})
	}
	return all
}

func rowNames() string {
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	return strings.Join(names, ", ")
}

// argv is the command of a row. The machine is set up already: READY is empty.
func (r row) argv(o options) []string {
	flags := "-json -count=1 " + o.flags
	if o.shuffle {
		flags += " -shuffle on"
	}
	argv := append([]string{"make", "--no-print-directory", "-s", r.target, "READY=", "TESTFLAGS=" + strings.TrimSpace(flags)}, r.vars...)
	if r.beside {
		return append([]string{"nice", "-n", "10"}, argv...)
	}
	return argv
}
