//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A report is the last row of figures of a perftest program, or of rdmalink perf, which prints the same
// columns.
type report []float64

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
		case strings.HasPrefix(line, "--"):
			inTable = false
		case inTable:
			if row := figures(strings.Fields(line)); row != nil {
				r = row
			}
		}
	}
	if len(r) < 5 {
		if bytes.Contains(text, []byte("Correlation coefficient")) {
			return r, errNoClock
		}
		return r, fmt.Errorf("no row of figures in the report: %s", lastLine(string(text)))
	}
	if r[4] <= 0 {
		return r, fmt.Errorf("a report of nothing: %v", r)
	}
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

// rate returns the million messages per second of a bandwidth report.
func (r report) rate() float64 { return r[4] }

// typical returns the median in µs of a latency report.
func (r report) typical() float64 { return r[4] }
