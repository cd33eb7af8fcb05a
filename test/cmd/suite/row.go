//go:build linux

package main

import (
	"os"
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
}

// rows are what make test runs, in the order to start them: the longest first.
var rows = allRows()

// without are the rows that have no guests.
var without = []string{"lint", "unit", "race", "sandbox", "fabric", "arm64", "exporter-test", "abi"}

func allRows() []row {
	var all []row
	for _, series := range rig.Series {
		all = append(all, row{name: "vm-" + series, target: "vm", vars: []string{"KERNELS=" + series, "GUESTS=1"}})
	}
	for _, target := range []string{"race", "bench-check", "sandbox", "lint", "arm64", "rig", "unit", "vmrace", "fabric", "exporter-test", "abi"} {
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

// argv is the command of a row. The machine is set up already: READY is empty. What passed before
// and has not changed is not run again, except in CI and where flakes are looked for.
func (r row) argv(o options) []string {
	flags := "-json " + o.flags
	if o.time > 0 || os.Getenv("CI") != "" {
		flags = "-count=1 " + flags
	}
	if o.shuffle {
		flags += " -shuffle on"
	}
	argv := append([]string{"make", "--no-print-directory", "-s", r.target, "READY=", "TESTFLAGS=" + strings.TrimSpace(flags)}, r.vars...)
	if r.beside {
		return append([]string{"nice", "-n", "10"}, argv...)
	}
	return argv
}
