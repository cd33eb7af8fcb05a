//go:build linux

package main

import (
	"fmt"
	"os"
)

// mutant is one change to one source file.
type mutant struct {
	pkg        string // directory of the package, from the top of the module: uverbs
	file       string // from the top of the module
	start, end int    // the bytes that are replaced
	with       string
	what       string // for the report
}

func (m mutant) String() string { return fmt.Sprintf("%s: %s", m.pkg, m.what) }

// source returns the changed file.
func (m mutant) source() ([]byte, error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	changed := append([]byte{}, text[:m.start]...)
	changed = append(changed, m.with...)
	return append(changed, text[m.end:]...), nil
}
