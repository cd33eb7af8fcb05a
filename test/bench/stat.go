//go:build linux

package main

import "slices"

// A spread is what several runs gave.
type spread struct{ min, median, max float64 }

// spreadOf is the spread of at least one value.
func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return spread{v[0], (v[(n-1)/2] + v[n/2]) / 2, v[n-1]}
}

// ratios divides, run by run, so that a disturbance that lasted for a run of both
// drops out. Runs that one of them lacks, and those that gave 0, are left out.
func ratios(a, b map[int]float64) (r []float64) {
	for run, x := range a {
		if y := b[run]; y != 0 {
			r = append(r, x/y)
		}
	}
	return r
}
