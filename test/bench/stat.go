//go:build linux

package main

import "slices"

// A spread summarizes the values of several runs.
type spread struct{ min, median, max float64 }

// spreadOf returns the spread of values, of which there must be at least one.
func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return spread{v[0], (v[(n-1)/2] + v[n/2]) / 2, v[n-1]}
}

// ratios returns a/b for each run. A disturbance during a run usually affects both, so it cancels out.
// ratios leaves out runs that a or b lacks, and runs whose b is 0.
func ratios(a, b map[int]float64) (r []float64) {
	for run, x := range a {
		if y := b[run]; y != 0 {
			r = append(r, x/y)
		}
	}
	return r
}
