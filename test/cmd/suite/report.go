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

const (
	// lastLines is how many lines of a failed command's output outside of tests are shown.
	lastLines = 60
	// mostOutput is how many bytes of a failed test's output are shown. A test that meets the
	// time limit prints the stacks of all goroutines.
	mostOutput = 32 << 10
	// slowest is how many tests of a row the table names.
	slowest = 5
)

// ended describes how a row ended, and everything about what failed in it.
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
	for _, key := range o.Failed {
		fmt.Fprintf(&b, "--- %s\n%s", key, first(o.Output(key), mostOutput))
	}
	other := slices.DeleteFunc(slices.Clone(o.Other), func(line string) bool {
		return line == "PASS" || strings.HasPrefix(line, "ok  \t")
	})
	for _, line := range other[max(0, len(other)-lastLines):] {
		fmt.Fprintln(&b, "   ", line)
	}
	return b.String()
}

// first returns at most n bytes of a text, in whole lines, and says how much is missing.
func first(text string, n int) string {
	if len(text) <= n {
		return text
	}
	n = strings.LastIndexByte(text[:n], '\n') + 1
	return fmt.Sprintf("%s[%d bytes more]\n", text[:n], len(text)-n)
}

// table prints a line a row, its slowest tests, and why tests were skipped.
func table(w io.Writer, all []outcome) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\nrow\tresult\ttook\tCPU\tpassed\tfailed\tskipped\tmachine faults\tslowest tests, in seconds")
	for i := range all {
		o := &all[i]
		if o.took == 0 {
			continue
		}
		result := "ok"
		if !o.ok() {
			result = "FAIL"
		} else if len(o.once) > 0 {
			result = "ok, 2nd run"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", o.row.name, result, o.took.Round(time.Second),
			o.cpu.Round(time.Second), o.tests(), len(o.Failed), o.Skips(), len(o.faults), o.slow())
	}
	tw.Flush()
	for i := range all {
		for _, key := range all[i].once {
			fmt.Fprintf(w, "%s failed in the first run: %s\n", all[i].row.name, key)
		}
		for _, why := range slices.Sorted(maps.Keys(all[i].Skipped)) {
			fmt.Fprintf(w, "%s skipped %d: %s\n", all[i].row.name, all[i].Skipped[why], why)
		}
	}
}

// slow names the tests of a row that took longest.
func (o *outcome) slow() string {
	var some []string
	for _, t := range o.Slowest(slowest) {
		_, name, _ := strings.Cut(t.Name, " ")
		some = append(some, fmt.Sprintf("%s %.1f", strings.TrimPrefix(name, "Test"), t.Time.Seconds()))
	}
	return strings.Join(some, ", ")
}

// total prints the sum of everything, last how long it took, and returns the exit code.
func total(w io.Writer, all []outcome, took time.Duration) int {
	passed, failed, skipped, faults, blamed, code := 0, 0, 0, 0, 0, 0
	for i := range all {
		o := &all[i]
		passed, failed, skipped = passed+o.Passed, failed+len(o.Failed), skipped+o.Skips()
		faults, blamed = faults+len(o.faults), blamed+o.blamed
		if !o.ok() {
			code = 1
		}
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	result := "ok"
	if code != 0 {
		result = "FAIL"
	}
	fmt.Fprintf(w, "%s in %s", result, took.Round(time.Second))
	if faults > 0 {
		fmt.Fprintf(w, "; %d machine faults", faults)
	}
	if blamed > 0 {
		fmt.Fprintf(w, ", %d of them a known fault of a module under test: tests ran again after it", blamed)
	}
	fmt.Fprintln(w)
	return code
}
