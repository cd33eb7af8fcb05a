package rounds

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/goverbs/goverbs/test/bench/result"
)

// A unit is the unit of samples.
type unit struct {
	name   string
	tick   float64 // length of a tick of the meter's clock
	suffix string  // suffix of the names of measures
}

// measure runs n rounds of each measurement and prints the medians.
func (o *options) measure(m *meter, n int, u unit, to io.Writer) error {
	for _, list := range Lists {
		if err := m.lists(list, n); err != nil {
			return fmt.Errorf("list %d: %w", list, err)
		}
		if err := o.print(m, n/2, fmt.Sprintf("list %d", list), Depth, u, to); err != nil {
			return err
		}
	}
	if err := m.calls(n); err != nil {
		return err
	}
	return o.print(m, n/2, "", Calls, u, to)
}

// print prints the medians of the meter's figures, divided by the elements of a round. There must be
// figures of at least least rounds.
func (o *options) print(m *meter, least int, params string, elements int, u unit, to io.Writer) error {
	for _, measure := range slices.Sorted(maps.Keys(m.costs)) {
		costs := m.costs[measure]
		if len(costs) < max(least, 1) {
			return fmt.Errorf("%s: only %d rounds went well", measure, len(costs))
		}
		slices.Sort(costs)
		value := float64(costs[len(costs)/2]) * u.tick / float64(elements)
		err := result.Write(to, result.Sample{Suite: "ring", Measure: measure + u.suffix, Driver: o.driver, Params: params,
			Impl: o.impl, Unit: u.name, Value: math.Round(value*1000) / 1000})
		if err != nil {
			return err
		}
	}
	return nil
}
