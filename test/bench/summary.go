//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
)

// namedCalls is the measure for counts of system calls by name.
const namedCalls = "system_calls_named"

// A summary is the content of results.json, from which the page is generated.
type summary struct {
	Machine machine
	Parts   []part
	Results []ratio
}

// A ratio holds the ratios of goverbs's figures to another implementation's, over the rows of a trial that
// belong to a comparison. Without another implementation it counts the allocations.
type ratio struct {
	Suite       string  `json:"suite"`
	Environment string  `json:"environment"`
	Measure     string  `json:"measure"`
	Against     string  `json:"against"`
	Rows        int     `json:"rows"`
	Median      float64 `json:"median"`
	Least       float64 `json:"least"`
	Greatest    float64 `json:"greatest"`
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
	return encodeLines(map[string]any{"machine": s.Machine, "parts": parts}, "results", s.Results)
}

// replace replaces the results of the part with the same suite and environment.
func (s *summary) replace(p part, rows []*row) {
	s.Parts = slices.DeleteFunc(s.Parts, func(old part) bool { return old.Suite == p.Suite && old.Environment == p.Environment })
	s.Results = slices.DeleteFunc(s.Results, func(old ratio) bool { return old.Suite == p.Suite && old.Environment == p.Environment })
	s.Parts, s.Results = append(s.Parts, p), append(s.Results, resultsOf(p, rows)...)
	slices.SortStableFunc(s.Parts, func(a, b part) int { return place(a.Suite, a.Environment) - place(b.Suite, b.Environment) })
	slices.SortStableFunc(s.Results, func(a, b ratio) int { return place(a.Suite, a.Environment) - place(b.Suite, b.Environment) })
}

// resultsOf compares the rows of a part with the other implementations. The results are in the order of
// comparisons.
func resultsOf(p part, rows []*row) (results []ratio) {
	for i := range comparisons {
		c := &comparisons[i]
		for _, other := range c.against {
			var all []float64
			for _, r := range rows {
				if s, ok := r.ratio(other); ok && comparisonOf(r.key, other) == c {
					all = append(all, s.median)
				}
			}
			if len(all) > 0 {
				results = append(results, ratioOf(p, c.String(), other, all))
			}
		}
	}
	var allocated []float64
	for _, r := range rows {
		if v, ok := r.value(ours); ok && strings.HasSuffix(r.Measure, "_allocs") {
			allocated = append(allocated, v.max)
		}
	}
	if len(allocated) > 0 {
		results = append(results, ratioOf(p, "allocations", "", allocated))
	}
	return results
}

func ratioOf(p part, measure, other string, values []float64) ratio {
	s := spreadOf(values)
	return ratio{Suite: p.Suite, Environment: p.Environment, Measure: measure, Against: other, Rows: len(values), Median: s.median, Least: s.min, Greatest: s.max}
}

// Table returns the table of results.
func (s summary) Table() string {
	var b strings.Builder
	b.WriteString("| suite, environment | measure | beside | rows | ratio: median (least–greatest) |\n|---|---|---|--:|---|\n")
	for _, r := range s.Results {
		against, figures := r.Against, spread{r.Least, r.Median, r.Greatest}.String()
		if against == "" {
			against, figures = "–", fmt.Sprintf("%g (%g–%g)", r.Median, r.Least, r.Greatest)
		}
		fmt.Fprintf(&b, "| %s, %s | %s | %s | %d | %s |\n", r.Suite, r.Environment, r.Measure, against, r.Rows, figures)
	}
	return b.String()
}
