//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A report is what perftest's programs print, and rdmalink perf in the same
// columns: the last row of figures, and with -H every latency.
type report struct {
	row     []float64
	latency []float64 // µs, in order
}

// errNoClock: perftest computes times from the CPU's clock, and was interrupted too much, as
// happens in a busy virtual machine, to find out how fast that is.
var errNoClock = errors.New("perftest left the figures out, for want of an even clock")

func parseReport(text []byte) (r report, err error) {
	inTable := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#bytes"):
			inTable = true
		case strings.HasPrefix(line, "#,"):
			inTable, r.latency = false, nil
		case strings.HasPrefix(line, "--"):
			inTable = false
		case inTable:
			if row := figures(strings.Fields(line)); row != nil {
				r.row = row
			}
		default:
			if _, us, ok := strings.Cut(line, ","); ok {
				if row := figures([]string{strings.TrimSpace(us)}); row != nil {
					r.latency = append(r.latency, row[0])
				}
			}
		}
	}
	if len(r.row) < 5 {
		if bytes.Contains(text, []byte("Correlation coefficient")) {
			return r, errNoClock
		}
		return r, fmt.Errorf("no row of figures in the report: %s", lastLine(string(text)))
	}
	if r.rate() <= 0 {
		return r, fmt.Errorf("a report of nothing: %v", r.row)
	}
	slices.Sort(r.latency)
	return r, nil
}

// figures are the numbers of a row; nil if something else is in it.
func figures(words []string) []float64 {
	var row []float64
	for _, w := range words {
		x, err := strconv.ParseFloat(w, 64)
		if err != nil {
			return nil
		}
		row = append(row, x)
	}
	return row
}

// percentile is the latency that p in a hundred do not exceed.
func (r report) percentile(p float64) (float64, error) {
	n := len(r.latency)
	if n == 0 {
		return 0, errors.New("no latencies in the report: is -H missing?")
	}
	return r.latency[min(n-1, int(float64(n)*p/100))], nil
}

// rate is how many million messages a second a report of bandwidth has, in the
// column where one of latency has the typical one.
func (r report) rate() float64 { return r.row[4] }
