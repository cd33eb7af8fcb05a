//go:build linux

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// lastLines is how much is shown of what a failed command printed outside of tests.
const lastLines = 60

// ended says how a row ended, and everything about what failed in it.
func ended(o *outcome) string {
	var b strings.Builder
	for _, f := range o.faults {
		fmt.Fprintf(&b, "!! %s: %s\n", o.row.name, f)
	}
	if o.ok() {
		fmt.Fprintf(&b, "ok %-12s %s\n", o.row.name, o.took.Round(time.Second))
		return b.String()
	}
	fmt.Fprintf(&b, "FAIL %s after %s: %v; all of its output is in %s\n", o.row.name, o.took.Round(time.Second), o.err, o.log)
	for _, key := range o.failed {
		fmt.Fprintf(&b, "--- %s\n", key)
		if said := o.output[key]; said != nil {
			b.WriteString(said.String())
		}
	}
	for _, line := range o.other[max(0, len(o.other)-lastLines):] {
		fmt.Fprintln(&b, "   ", line)
	}
	return b.String()
}

// table prints a line a row.
func table(w io.Writer, all []outcome) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\nrow\tresult\ttook\ttests\tfailed\tskipped\tmachine faults")
	for i := range all {
		o := &all[i]
		if o.took == 0 {
			continue
		}
		result := "ok"
		if !o.ok() {
			result = "FAIL"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%d\t%d\n", o.row.name, result, o.took.Round(time.Second),
			o.passed, len(o.failed), o.skips(), len(o.faults))
	}
	tw.Flush()
	for i := range all {
		for _, why := range slices.Sorted(maps.Keys(all[i].skipped)) {
			fmt.Fprintf(w, "%s skipped %d: %s\n", all[i].row.name, all[i].skipped[why], why)
		}
	}
}

func (o *outcome) skips() int {
	sum := 0
	for _, n := range o.skipped {
		sum += n
	}
	return sum
}

// frequencies says how often what failed.
func frequencies(w io.Writer, all []outcome) {
	runs, failed := make(map[string]int), make(map[string]int)
	faults := 0
	for i := range all {
		o := &all[i]
		runs[o.row.name]++
		faults += len(o.faults)
		for _, key := range o.failed {
			failed[o.row.name+" "+key]++
		}
		if !o.ok() && len(o.failed) == 0 {
			failed[o.row.name+" "+o.err.Error()]++
		}
	}
	fmt.Fprintf(w, "\n%d kinds of failure, %d machine faults\n", len(failed), faults)
	for _, what := range slices.Sorted(maps.Keys(failed)) {
		name, rest, _ := strings.Cut(what, " ")
		fmt.Fprintf(w, "%d of %d  %s  %s\n", failed[what], runs[name], name, rest)
	}
}

// total prints the sum of everything and returns the exit code.
func total(w io.Writer, all []outcome) int {
	passed, failed, skipped, code := 0, 0, 0, 0
	for i := range all {
		o := &all[i]
		passed, failed, skipped = passed+o.passed, failed+len(o.failed), skipped+o.skips()
		if !o.ok() {
			code = 1
		}
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return code
}
