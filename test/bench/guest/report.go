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

// A report is the parsed output of a perftest program, or of rdmalink perf, which prints the same
// columns. It has the last row of figures and, with -H, all latencies.
type report struct {
	row     []float64
	latency []float64 // µs, sorted
}

// errNoClock means that perftest could not measure the frequency of the CPU's clock, from which
// it computes times. In a busy virtual machine it is interrupted too often for that.
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

// figures returns the numbers of a row, or nil if any word is not a number.
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

// percentile returns the latency that p percent of the latencies do not exceed.
func (r report) percentile(p float64) (float64, error) {
	n := len(r.latency)
	if n == 0 {
		return 0, errors.New("no latencies in the report: is -H missing?")
	}
	return r.latency[min(n-1, int(float64(n)*p/100))], nil
}

// rate returns the million messages per second of a bandwidth report. A latency report has
// its typical latency in that column.
func (r report) rate() float64 { return r.row[4] }
