//go:build linux

package main

import (
	"errors"
	"slices"
)

// choose finds the patches' places.
func choose(o options) (all []mutant, err error) {
	patches, err := readPatches(patchDir)
	if err != nil {
		return nil, err
	}
	var lost []error
	for _, p := range patches {
		if !slices.Contains(o.pkgs, p.pkg) {
			continue
		}
		m, err := p.find()
		if err != nil {
			lost = append(lost, err)
			continue
		}
		all = append(all, m)
	}
	if err := errors.Join(lost...); err != nil {
		return nil, err
	}
	if o.only != nil {
		all = slices.DeleteFunc(all, func(m mutant) bool { return !o.only.MatchString(m.String()) })
	}
	return all, nil
}
