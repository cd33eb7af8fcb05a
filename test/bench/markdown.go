//go:build linux

package main

import (
	"fmt"
	"math"
	"strings"
)

// figure formats a number with three significant digits.
func figure(x float64) string {
	switch a := math.Abs(x); {
	case x == math.Trunc(x) && a < 1e6, a >= 100:
		return fmt.Sprintf("%.0f", x)
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	case a >= 0.995:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.2g", x)
}

func (s spread) String() string {
	if s.min == s.max {
		return fmt.Sprintf("%.2f", s.median)
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.median, s.min, s.max)
}

// name returns the row's name in words.
func (r *row) name() string {
	words := strings.ReplaceAll(r.Measure, "_", " ")
	if r.Params != "" {
		words += ": " + r.Params
	}
	return words
}

func cell(r *row, impl string) string {
	if v, ok := r.value(impl); ok {
		return figure(v.median)
	}
	return "–"
}

// beside returns the ratio to another implementation.
func beside(r *row, other string) string {
	s, ok := r.ratio(other)
	if !ok {
		return "–"
	}
	return s.String()
}

// markdown returns all figures, with one table per part.
func (d document) markdown() string {
	var b strings.Builder
	b.WriteString("# Figures of the benchmark\n")
	for _, p := range d.Parts {
		fmt.Fprintf(&b, "\n## %s, %s\n\n%d runs in %d s on %s at %s: %s\n\n%s", p.Suite, p.Environment, p.Runs, p.Seconds, p.Date, p.Commit, p.Command, d.table(p))
		for _, m := range p.Missing {
			fmt.Fprintf(&b, "\nNo figures: %s\n", m)
		}
	}
	return b.String()
}

// table returns the table of a part.
func (d document) table(p part) string {
	var rows []*row
	cgo := false
	for _, r := range d.Rows {
		if r.Suite == p.Suite && r.Environment == p.Environment {
			rows = append(rows, r)
			cgo = cgo || r.Values["cgo"] != nil
		}
	}
	if len(rows) == 0 {
		return "Not measured.\n"
	}
	var b strings.Builder
	tableHead(&b, cgo)
	for _, r := range rows {
		others := r.inC()
		if len(others) == 0 {
			others = []string{""}
		}
		for _, other := range others {
			tableRow(&b, r, other, cgo)
		}
	}
	return b.String()
}

func tableHead(b *strings.Builder, cgo bool) {
	head, under := "| measure | driver | unit | goverbs | C | | goverbs/C |", "|---|---|---|--:|--:|---|---|"
	if cgo {
		head, under = head+" cgo | goverbs/cgo |", under+"--:|---|"
	}
	fmt.Fprintf(b, "%s\n%s\n", head, under)
}

func tableRow(b *strings.Builder, r *row, other string, cgo bool) {
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |", r.name(), r.Driver, r.Unit, cell(r, ours), cell(r, other), other, beside(r, other))
	if cgo {
		fmt.Fprintf(b, " %s | %s |", cell(r, "cgo"), beside(r, "cgo"))
	}
	b.WriteByte('\n')
}
