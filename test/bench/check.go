//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
)

// limitsFile holds the accepted figures that do not depend on the machine, and tolerances.
const limitsFile = "test/bench/limits.json"

type limits struct {
	// Tolerance is the factor by which instructions may exceed the figures below, because another
	// compiler generates other code.
	Tolerance float64
	// Instructions holds the instructions per element or per call.
	Instructions map[string]float64
	// Beside holds the maximum ratio of a row's instructions to the other implementation's in the
	// same run. It is for rows that include the kernel's instructions, which differ between boots.
	Beside map[string]float64
	// Slack is the number of doorbells by which a message may exceed C's. The number of other
	// system calls depends on scheduling, so only make bench measures it.
	Slack float64
	// Calls holds the system calls of a connection whose number is always the same, with the same
	// slack. A call with the limit 0 need not be counted. On siw there are none, because either end may
	// have to wait for the connection to be established, and for its end.
	Calls map[string]float64
}

// check runs short trials and compares their figures with the limits.
func check(ctx context.Context, o options) error {
	text, err := os.ReadFile(limitsFile)
	if err != nil {
		return err
	}
	var l limits
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("%s: %w", limitsFile, err)
	}
	var rows []*row
	err = eachTrial(ctx, o, func(t trial, p part, more []*row, err error) error {
		rows = append(rows, more...)
		if err == nil && len(p.Missing) > 0 {
			err = fmt.Errorf("%s in %s: no figures: %s", t.suite, t.environment.name, strings.Join(p.Missing, "\n"))
		}
		return err
	})
	if err != nil {
		return err
	}
	if o.accept {
		if len(o.suites) == len(suiteNames()) { // rows that are gone lose their limits
			clear(l.Instructions)
		}
		l.accept(rows)
		if err := l.write(); err != nil {
			return err
		}
	}
	return l.hold(rows)
}

func (r *row) checkName() string { return strings.TrimSpace(r.name() + " on " + r.Driver) }

// hold returns an error for each figure that exceeds its limit.
func (l limits) hold(rows []*row) error {
	var bad []error
	fail := func(r *row, format string, args ...any) {
		bad = append(bad, fmt.Errorf("%s: %s", r.checkName(), fmt.Sprintf(format, args...)))
	}
	for _, r := range rows {
		v, ok := r.value(ours)
		switch {
		case !ok, r.Measure == namedCalls: // see holdCalls
		case strings.HasSuffix(r.Measure, "_allocs"):
			if v.max > 0 {
				fail(r, "%s allocations, want none", figure(v.max))
			}
		case r.Measure == "doorbells" && r.Driver == "rxe": // the number for siw depends on when the kernel reads the queue
			if most := r.mostInC() + l.Slack; v.median > most {
				fail(r, "%.2f %s, at most %.2f are allowed", v.median, r.Unit, most)
			}
		case l.Beside[r.checkName()] != 0:
			if most := l.Beside[r.checkName()] * r.mostInC(); v.median > most {
				fail(r, "%.2f %s, at most %.2f are allowed beside %s", v.median, r.Unit, most, strings.Join(r.inC(), ", "))
			}
		case r.Unit == "instructions":
			most, ok := l.Instructions[r.checkName()]
			if !ok {
				fail(r, "no limit in %s", limitsFile)
			} else if v.median > most*l.Tolerance {
				fail(r, "%.1f instructions, at most %.1f are allowed", v.median, most*l.Tolerance)
			}
		}
	}
	bad = append(bad, l.holdCalls(rows)...)
	if len(bad) > 0 {
		bad = append(bad, fmt.Errorf("if that is meant to be so, say so in %s: go run ./test/bench -check -accept writes the instructions", limitsFile))
	}
	return errors.Join(bad...)
}

// holdCalls returns an error for each system call that a connection makes too often. It also returns an
// error for each that was not counted while others were, unless its limit is 0.
func (l limits) holdCalls(rows []*row) (bad []error) {
	count := make(map[string]float64)
	for _, r := range rows {
		if v, ok := r.value(ours); ok && r.Measure == namedCalls {
			count[r.checkName()] = v.median
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.Calls)) {
		n, ok := count[name]
		if most := l.Calls[name] + l.Slack; n > most || !ok && l.Calls[name] > 0 && len(count) > 0 {
			bad = append(bad, fmt.Errorf("%s: %.2f, at most %.2f are allowed, and not none unless the limit is 0", name, n, most))
		}
	}
	return bad
}

// mostInC returns the largest figure of the C implementations in the same run.
func (r *row) mostInC() (most float64) {
	for _, other := range r.inC() {
		v, _ := r.value(other)
		most = max(most, v.median)
	}
	return most
}

// accept sets the limits of the rows to the measured instructions.
func (l *limits) accept(rows []*row) {
	for _, r := range rows {
		_, limited := l.Calls[r.checkName()]
		if v, ok := r.value(ours); ok && r.Unit == "instructions" && l.Beside[r.checkName()] == 0 {
			l.Instructions[r.checkName()] = v.median
		} else if ok && r.Measure == namedCalls && limited {
			l.Calls[r.checkName()] = math.Round(v.median)
		}
	}
}

// write writes the limits to their file.
func (l *limits) write() error {
	text, err := json.MarshalIndent(l, "", "\t")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "bench: wrote", limitsFile)
	return os.WriteFile(limitsFile, append(text, '\n'), 0o666)
}
