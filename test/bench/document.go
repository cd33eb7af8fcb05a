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

// A document holds all figures that were measured on this machine.
type document struct {
	Parts []part
	Rows  []*row
}

// A part describes one trip.
type part struct {
	Suite   string   `json:"suite"`
	Vehicle string   `json:"vehicle"`
	Date    string   `json:"date"`
	Command string   `json:"command"`
	Commit  string   `json:"commit"`
	Runs    int      `json:"runs"`
	Seconds int      `json:"seconds"`
	Missing []string `json:"missing,omitempty"` // measurements without figures, with the reasons
}

// readDocument reads a document. It returns an empty one if the file doesn't exist.
func readDocument(file string) (d document, err error) {
	err = readJSON(file, &d)
	return d, err
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

// replace replaces the part with the same suite and vehicle, or inserts the part in the order of trips.
func (d *document) replace(p part, rows []*row) {
	d.Parts = slices.DeleteFunc(d.Parts, func(old part) bool { return old.Suite == p.Suite && old.Vehicle == p.Vehicle })
	d.Rows = slices.DeleteFunc(d.Rows, func(old *row) bool { return old.Suite == p.Suite && old.Vehicle == p.Vehicle })
	d.Parts, d.Rows = append(d.Parts, p), append(d.Rows, rows...)
	slices.SortStableFunc(d.Parts, func(a, b part) int { return place(a.Suite, a.Vehicle) - place(b.Suite, b.Vehicle) })
	slices.SortStableFunc(d.Rows, func(a, b *row) int { return place(a.Suite, a.Vehicle) - place(b.Suite, b.Vehicle) })
}

// place returns the index in trips of a suite and a vehicle.
func place(suite, vehicle string) int {
	return slices.IndexFunc(trips, func(t trip) bool { return t.suite == suite && t.vehicle.name == vehicle })
}

func (d document) encode() ([]byte, error) {
	return encodeLines(map[string]any{"parts": d.Parts}, "rows", d.Rows)
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
