//go:build linux

package main

import (
	"fmt"
	"slices"
)

// mutant is one change to one source file.
type mutant struct {
	pkg        string // directory of the package, from the top of the module: uverbs
	file       string // from the top of the module
	text       []byte // of the file when the mutant was made
	start, end int    // the bytes that are replaced
	with       string
	what       string // for the report
}

func (m mutant) String() string { return fmt.Sprintf("%s: %s", m.pkg, m.what) }

// source returns the changed file.
func (m mutant) source() []byte {
	return slices.Concat(m.text[:m.start], []byte(m.with), m.text[m.end:])
}
