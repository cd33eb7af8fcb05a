//go:build linux

package main

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

// A debianPackage is an installed package with its dependencies.
type debianPackage struct {
	name, version string
	essential     bool
	needs         []string
}

// installed returns Debian's packages of this machine by name, and by the names that they provide.
func installed() (map[string]debianPackage, error) {
	text, err := exec.Command("dpkg-query", "-W", "-f",
		`${Package}\t${Version}\t${Essential}\t${Pre-Depends}, ${Depends}\t${Provides}\t${db:Status-Status}\n`).Output()
	if err != nil {
		return nil, fmt.Errorf("list the installed packages: %w", err)
	}
	all := make(map[string]debianPackage)
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 6 || f[5] != "installed" {
			continue
		}
		p := debianPackage{name: f[0], version: f[1], essential: f[2] == "yes", needs: packageNames(f[3])}
		for _, name := range append(packageNames(f[4]), p.name) {
			if _, ok := all[name]; !ok || name == p.name {
				all[name] = p
			}
		}
	}
	return all, nil
}

// packageNames takes the names out of a list of dependencies, such as "libc6 (>= 2.36), a | b:any".
func packageNames(list string) []string {
	var names []string
	for word := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == '|' }) {
		name, _, _ := strings.Cut(strings.TrimSpace(word), " ")
		name, _, _ = strings.Cut(name, ":")
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// closure returns those of the packages that names and every system need, sorted by name.
func closure(all map[string]debianPackage, names []string) []debianPackage {
	found := make(map[string]debianPackage)
	left := slices.Clone(names)
	for _, p := range all {
		if p.essential {
			left = append(left, p.name)
		}
	}
	for len(left) > 0 {
		p, ok := all[left[0]]
		left = left[1:]
		if _, seen := found[p.name]; ok && !seen {
			found[p.name] = p
			left = append(left, p.needs...)
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b debianPackage) int { return strings.Compare(a.name, b.name) })
}
