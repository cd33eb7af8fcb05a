//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
)

// row is one row of a suite, or several.
type row interface {
	fmt.Stringer
	runsOn() []string // drivers
}

// forEach measures each row on each of its drivers. If one fails, it continues with the next.
func forEach[R row](b *bench, rows []R, measure func(R, *link) error) error {
	var failed []error
	for _, driver := range drivers {
		for i, r := range rows {
			if !slices.Contains(r.runsOn(), driver) || b.only != nil && !b.only.MatchString(driver+": "+r.String()) {
				continue
			}
			b.progress("%s: %s (%d of %d)", driver, r, i+1, len(rows))
			l, err := b.link(driver)
			if err != nil {
				return err
			}
			if err := measure(r, l); err != nil {
				failed = append(failed, fmt.Errorf("%s: %s: %w", driver, r, err))
			}
		}
	}
	return errors.Join(failed...)
}
