//go:build vm

package test

import (
	"strconv"
	"strings"
	"testing"
)

// perftestRow is a line of the table that perftest and rdmalink perf print.
type perftestRow struct {
	size, iters int
	figures     []float64
}

// perftestRows are those of an end's output.
func perftestRows(t *testing.T, text string) (rows []perftestRow) {
	t.Helper()
	table := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, " #bytes"):
			table = true
		case strings.HasPrefix(line, "----"):
			table = false
		case table:
			rows = append(rows, parsePerftestRow(t, line))
		}
	}
	return rows
}

// perftestColumns are the names of the columns, with single spaces.
func perftestColumns(text string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, " #bytes") {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	return ""
}

func parsePerftestRow(t *testing.T, line string) perftestRow {
	t.Helper()
	var numbers []float64
	for _, word := range strings.Fields(line) {
		n, err := strconv.ParseFloat(strings.TrimPrefix(word, "-"), 64) // C's deviation is -nan at times
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		numbers = append(numbers, n)
	}
	if len(numbers) < 4 {
		t.Fatalf("%q is no row of the table", line)
	}
	return perftestRow{int(numbers[0]), int(numbers[1]), numbers[2:]}
}

// figure is an average: of a latency, or what there is of a bandwidth, which may be
// 0.00 for small messages, and a message rate, which may be 0.000000 for large ones.
func (r perftestRow) figure() float64 {
	switch len(r.figures) {
	case 3: // peak, average, rate
		return r.figures[1] + r.figures[2]
	case 7: // min, max, typical, average, deviation, 99 %, 99.9 %
		return r.figures[3]
	}
	return r.figures[0] + r.figures[1] // -D: average, rate
}
