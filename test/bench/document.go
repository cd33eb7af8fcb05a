//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// A document holds the figures of a run.
type document struct {
	Parts []part
	Rows  []*row
}

// A part describes one trial.
type part struct {
	Suite       string   `json:"suite"`
	Environment string   `json:"environment"`
	Date        string   `json:"date"`
	Command     string   `json:"command"`
	Commit      string   `json:"commit"`
	Runs        int      `json:"runs"`
	Seconds     int      `json:"seconds"`
	Missing     []string `json:"missing,omitempty"` // measurements without figures, with the reasons
}

// readJSON decodes a file into v. If the file doesn't exist, v is unchanged.
func readJSON(file string, v any) error {
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// add adds a trial, in the order of trials.
func (d *document) add(p part, rows []*row) {
	d.Parts, d.Rows = append(d.Parts, p), append(d.Rows, rows...)
	slices.SortStableFunc(d.Parts, func(a, b part) int { return place(a.Suite, a.Environment) - place(b.Suite, b.Environment) })
}

// place returns the index in trials of a suite and an environment.
func place(suite, environment string) int {
	return slices.IndexFunc(trials, func(t trial) bool { return t.suite == suite && t.environment.name == environment })
}

// encodeLines encodes an object whose last field is a list. Each element has its own line, so that
// versions can be compared with diff.
func encodeLines[T any](head map[string]any, name string, list []T) ([]byte, error) {
	text, err := json.MarshalIndent(head, "", " ")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Write(bytes.TrimSuffix(text, []byte("\n}")))
	fmt.Fprintf(&b, ",\n %q: [", name)
	for i, e := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		line, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		b.WriteString("\n  ")
		b.Write(line)
	}
	b.WriteString("\n ]\n}\n")
	return b.Bytes(), nil
}
