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

// A document holds every figure of the trips that this machine made.
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
	Missing []string `json:"missing,omitempty"` // measurements without figures, and why
}

// readDocument returns an empty document if there is no file.
func readDocument(file string) (d document, err error) {
	err = readJSON(file, &d)
	return d, err
}

// readJSON leaves v as it is if there is no file.
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

// replace puts a part in the place of an older one of the same suite and vehicle,
// in the order of trips.
func (d *document) replace(p part, rows []*row) {
	d.Parts = slices.DeleteFunc(d.Parts, func(old part) bool { return old.Suite == p.Suite && old.Vehicle == p.Vehicle })
	d.Rows = slices.DeleteFunc(d.Rows, func(old *row) bool { return old.Suite == p.Suite && old.Vehicle == p.Vehicle })
	d.Parts, d.Rows = append(d.Parts, p), append(d.Rows, rows...)
	slices.SortStableFunc(d.Parts, func(a, b part) int { return place(a.Suite, a.Vehicle) - place(b.Suite, b.Vehicle) })
	slices.SortStableFunc(d.Rows, func(a, b *row) int { return place(a.Suite, a.Vehicle) - place(b.Suite, b.Vehicle) })
}

// place returns the index of a suite and vehicle in trips.
func place(suite, vehicle string) int {
	return slices.IndexFunc(trips, func(t trip) bool { return t.suite == suite && t.vehicle.name == vehicle })
}

func (d document) encode() ([]byte, error) {
	return encodeLines(map[string]any{"parts": d.Parts}, "rows", d.Rows)
}

// encodeLines encodes an object whose last field is a list with one element a line, so
// that two versions can be compared.
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
