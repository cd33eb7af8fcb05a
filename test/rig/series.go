//go:build linux

package rig

import (
	"fmt"
	"slices"
	"strings"
)

// Series are the kernel series that the tests run on, and what "all" stands for. The first is the
// one that `vm run` takes. A series is pinned. Its patch level is not: the newest on offer is taken.
var Series = []string{"6.12", "6.1", "7.3"}

// Vehicles are all kernels that can be fetched and run: [Series], and [UML] for measurements.
var Vehicles = append(slices.Clone(Series), UML)

// foreign are the series that Debian 12 does not have, and the suite that has
// them. Their modules want a newer compiler than Debian 12's: there siw, which
// Debian leaves out of every kernel, can't be built.
var foreign = map[string]string{"7.3": "trixie-backports"}

// hasSiw reports whether siw.ko is built for a series.
func hasSiw(series string) bool { return foreign[series] == "" }

// Lacks names the drivers that the kernel is without by design, in words. What
// is missing otherwise fails [Fetch].
func (k Kernel) Lacks() string {
	if hasSiw(k.Series) {
		return ""
	}
	return "siw"
}

// CheckSeries returns the series that the words of names stand for; "all" is
// every one.
func CheckSeries(names string) ([]string, error) {
	if names == "all" {
		return Series, nil
	}
	list := strings.Fields(names)
	for _, name := range list {
		if !slices.Contains(Vehicles, name) {
			return nil, fmt.Errorf("kernel series %q: expected one of %s, all", name, strings.Join(Vehicles, ", "))
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no kernel series: expected some of %s, or all", strings.Join(Vehicles, ", "))
	}
	return list, nil
}
