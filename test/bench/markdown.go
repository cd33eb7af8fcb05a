//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// page is what the template of performance.md can ask for.
type page struct{ document }

// figure writes a number with three digits that count.
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

// name is the row's, in words.
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

// verdict is the ratio to another and what it should be.
func verdict(r *row, other string) (ratio, goal string) {
	if other == "" {
		return "–", ""
	}
	s, ok := r.ratio(other)
	if !ok {
		return "–", ""
	}
	b := barOf(r.key, other)
	if b == nil {
		return s.String(), ""
	}
	answer := b.reached(s)
	if answer == "no" {
		answer = "**no**"
	}
	return s.String(), fmt.Sprintf("%s: %s", b, answer)
}

// Table is the rows of a suite in a vehicle; several measures' names begin with
// one of those given, all if none is.
func (p page) Table(suite, vehicle string, measures ...string) string {
	var rows []*row
	cgo := false
	for _, r := range p.Rows {
		if r.Suite != suite || r.Vehicle != vehicle || apart(r) || !beginsWith(r.Measure, measures) {
			continue
		}
		rows = append(rows, r)
		cgo = cgo || r.Values["cgo"] != nil
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

// apart are the rows that have a table of their own, are summed up, or are in the
// plots and the raw figures only.
func apart(r *row) bool {
	return r.Measure == namedCalls || strings.HasSuffix(r.Measure, "_allocs") || strings.HasSuffix(r.Measure, "_p90") || strings.HasSuffix(r.Measure, "_p99.9")
}

func beginsWith(s string, prefixes []string) bool {
	return len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

func tableHead(b *strings.Builder, cgo bool) {
	head, under := "| measure | driver | unit | goverbs | C | | goverbs/C | goal |", "|---|---|---|--:|--:|---|---|---|"
	if cgo {
		head, under = head+" cgo | goverbs/cgo | goal |", under+"--:|---|---|"
	}
	fmt.Fprintf(b, "%s\n%s\n", head, under)
}

func tableRow(b *strings.Builder, r *row, other string, cgo bool) {
	ratio, goal := verdict(r, other)
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |", r.name(), r.Driver, r.Unit, cell(r, ours), cell(r, other), other, ratio, goal)
	if cgo {
		ratio, goal = verdict(r, "cgo")
		fmt.Fprintf(b, " %s | %s | %s |", cell(r, "cgo"), ratio, goal)
	}
	b.WriteByte('\n')
}
