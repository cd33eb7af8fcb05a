//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// namedCalls is the measure for counts of system calls by name.
const namedCalls = "system_calls_named"

// A summary is the content of results.json, from which the page is generated.
type summary struct {
	Machine machine
	Parts   []part
	Goals   []goal
}

// A goal is the number of rows of a trip that reach a bar.
type goal struct {
	Suite   string `json:"suite"`
	Vehicle string `json:"vehicle"`
	Measure string `json:"measure"`
	Against string `json:"against"`
	Goal    string `json:"goal"`
	Rows    int    `json:"rows"`
	Reached int    `json:"reached"`
	Within  int    `json:"within"` // rows whose median misses the bar while the best run reaches it
	// Ratios of goverbs to the other implementation over all rows.
	Median   float64 `json:"median"`
	Least    float64 `json:"least"`
	Greatest float64 `json:"greatest"`
}

func readResults(file string) (s summary, err error) {
	err = readJSON(file, &s)
	return s, err
}

func (s summary) encode() ([]byte, error) {
	parts := slices.Clone(s.Parts)
	for i := range parts {
		parts[i].Missing = nil // only the figures list them
	}
	return encodeLines(map[string]any{"machine": s.Machine, "parts": parts}, "goals", s.Goals)
}

// replace replaces the goals of the part with the same suite and vehicle.
func (s *summary) replace(p part, rows []*row) {
	s.Parts = slices.DeleteFunc(s.Parts, func(old part) bool { return old.Suite == p.Suite && old.Vehicle == p.Vehicle })
	s.Goals = slices.DeleteFunc(s.Goals, func(old goal) bool { return old.Suite == p.Suite && old.Vehicle == p.Vehicle })
	s.Parts, s.Goals = append(s.Parts, p), append(s.Goals, goalsOf(p, rows)...)
	slices.SortStableFunc(s.Parts, func(a, b part) int { return place(a.Suite, a.Vehicle) - place(b.Suite, b.Vehicle) })
	slices.SortStableFunc(s.Goals, func(a, b goal) int { return place(a.Suite, a.Vehicle) - place(b.Suite, b.Vehicle) })
}

// goalsOf compares the rows of a part with their bars. The goals are in the order of bars.
func goalsOf(p part, rows []*row) (goals []goal) {
	for i := range bars {
		b := &bars[i]
		for _, other := range b.against {
			g := goal{Suite: p.Suite, Vehicle: p.Vehicle, Measure: b.name(), Against: other, Goal: b.String()}
			var all []float64
			judge(rows, func(r *row, held *bar, against string, s spread) {
				if held == b && against == other {
					all = append(all, s.median)
					g.add(b.reached(s))
				}
			})
			if len(all) > 0 {
				s := spreadOf(all)
				g.Median, g.Least, g.Greatest = s.median, s.min, s.max
				goals = append(goals, g)
			}
		}
	}
	g := goal{Suite: p.Suite, Vehicle: p.Vehicle, Measure: "allocations", Goal: "0"}
	for _, r := range rows {
		if v, ok := r.value(ours); ok && strings.HasSuffix(r.Measure, "_allocs") {
			answer := "no"
			if v.max == 0 {
				answer = "yes"
			}
			g.add(answer)
		}
	}
	if g.Rows > 0 {
		goals = append(goals, g)
	}
	return goals
}

func (g *goal) add(answer string) {
	g.Rows++
	switch answer {
	case "yes":
		g.Reached++
	case "within the spread":
		g.Within++
	}
}

func (b bar) name() string {
	name := strings.ReplaceAll(strings.Join(b.measures, ", "), "_", " ")
	if slices.Equal(b.measures, hot) {
		name = "post, poll, arm"
	}
	switch {
	case b.not != "":
		name += ": lists of 1"
	case b.params == "list":
		name += ": lists"
	case b.params != "":
		name += ": " + b.params
	}
	return name
}

// Table returns the table of goals.
func (s summary) Table() string {
	var b strings.Builder
	b.WriteString("| suite, vehicle | measure | beside | goal | rows | reached | within the spread | not | ratio: median (least–greatest) |\n|---|---|---|---|--:|--:|--:|--:|---|\n")
	for _, g := range s.Goals {
		against, ratio := "–", "–"
		if g.Against != "" {
			against = g.Against
			ratio = spread{g.Least, g.Median, g.Greatest}.String()
		}
		fmt.Fprintf(&b, "| %s, %s | %s | %s | %s | %d | %d | %d | %d | %s |\n",
			g.Suite, g.Vehicle, g.Measure, against, g.Goal, g.Rows, g.Reached, g.Within, g.Rows-g.Reached-g.Within, ratio)
	}
	return b.String()
}

// judge calls yield for each row and other implementation with a bar.
func judge(rows []*row, yield func(r *row, b *bar, other string, s spread)) {
	for _, r := range rows {
		for _, other := range slices.Sorted(maps.Keys(r.Values)) {
			b := barOf(r.key, other)
			if s, ok := r.ratio(other); ok && b != nil {
				yield(r, b, other, s)
			}
		}
	}
}
