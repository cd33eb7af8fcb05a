//go:build linux

package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
)

// choose finds the patches' places, and draws the sample.
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
	some, err := sample(o)
	all = append(all, some...)
	if o.only != nil {
		all = slices.DeleteFunc(all, func(m mutant) bool { return !o.only.MatchString(m.String()) })
	}
	return all, err
}

func sample(o options) (all []mutant, err error) {
	for _, pkg := range o.pkgs {
		files, err := sources(pkg)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			some, err := generate(pkg, file, text)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
	}
	rand.New(rand.NewPCG(o.seed, 0)).Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all[:min(o.sample, len(all))], nil
}
