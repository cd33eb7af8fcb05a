//go:build linux

package main

import (
	"maps"
	"slices"

	"github.com/goverbs/goverbs/test/bench/result"
)

// key identifies a row of the table.
type key struct {
	Suite       string `json:"suite"`
	Measure     string `json:"measure"`
	Driver      string `json:"driver,omitempty"`
	Params      string `json:"params,omitempty"`
	Environment string `json:"environment"`
	Unit        string `json:"unit"`
}

// A row holds the values of all runs of all implementations.
type row struct {
	key
	Values map[string]map[int]float64 `json:"values"`
}

// rowsOf groups samples that differ only in implementation and run into rows. The rows are in the order
// of measurement.
func rowsOf(samples []result.Sample) (rows []*row) {
	byKey := make(map[key]*row)
	for _, s := range samples {
		k := key{s.Suite, s.Measure, s.Driver, s.Params, s.Environment, s.Unit}
		r := byKey[k]
		if r == nil {
			r = &row{key: k, Values: make(map[string]map[int]float64)}
			byKey[k] = r
			rows = append(rows, r)
		}
		if r.Values[s.Impl] == nil {
			r.Values[s.Impl] = make(map[int]float64)
		}
		r.Values[s.Impl][s.Run] = s.Value
	}
	return rows
}

// value returns the spread of an implementation. It reports false if there are no values.
func (r *row) value(impl string) (spread, bool) {
	runs := r.Values[impl]
	if len(runs) == 0 {
		return spread{}, false
	}
	return spreadOf(slices.Collect(maps.Values(runs))), true
}

// ours is the implementation that is compared with all others.
const ours = "goverbs"

// ratio returns the spread of the ratios of ours to another implementation.
func (r *row) ratio(other string) (spread, bool) {
	all := ratios(r.Values[ours], r.Values[other])
	if len(all) == 0 {
		return spread{}, false
	}
	return spreadOf(all), true
}

// inC returns the implementations of the row that are written in C, sorted.
func (r *row) inC() (all []string) {
	for _, impl := range slices.Sorted(maps.Keys(r.Values)) {
		if impl != ours && impl != "cgo" {
			all = append(all, impl)
		}
	}
	return all
}
