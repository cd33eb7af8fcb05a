//go:build linux

package main

import (
	"slices"
	"strings"

	"github.com/goverbs/goverbs/test/rig"
)

// A row is a target of the Makefile.
type row struct {
	name    string
	target  string
	vars    []string
	release bool // of make test-all, not of make test
	beside  bool // gives way to the rows that have guests
	single  bool // one command that go test has no cached results for: failed tests run again without the others
}

// rows are all rows, in the order to start them: the longest first.
var rows = allRows()

// of returns the rows of make test, or those that make test-all adds to them.
func of(release bool) []row {
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.release != release })
}

// A change is tested on the first kernel, a release on the others too. The Makefile says which
// kernel tests are the long ones, and which packages the library.
func allRows() []row {
	var all []row
	for i, series := range rig.Series {
		vars := []string{"KERNELS=" + series, "GUESTS=1"}
		if i == 0 {
			vars = append(vars, "VM_PACKAGES=$(VM_SHORT)")
		}
		all = append(all, row{name: "vm-" + series, target: "vm", vars: vars, release: i > 0, single: true})
	}
	all = append(all, row{name: "race", target: "race", vars: []string{"RACE=$(RACE_LIBRARY)"}, beside: true})
	for _, target := range []string{"sandbox", "lint", "unit", "vmrace", "exporter-test"} {
		all = append(all, row{name: target, target: target, beside: target != "vmrace", single: target == "vmrace"})
	}
	all = append(all,
		row{name: "vmlong", target: "vmlong", vars: []string{"KERNELS=" + rig.Series[0], "GUESTS=1"}, release: true, single: true},
		row{name: "race-rest", target: "race", vars: []string{"RACE=$(RACE_REST)"}, release: true, beside: true})
	for _, target := range []string{"peers", "bench-check", "platforms", "arm64", "rig", "fabric", "abi"} {
		all = append(all, row{name: target, target: target, release: true, beside: target != "bench-check" && target != "rig",
			single: target == "arm64"})
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
// and has not changed is not run again, except where flakes are looked for.
func (r row) argv(o options) []string {
	flags := "-json " + o.flags
	if o.time > 0 {
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
