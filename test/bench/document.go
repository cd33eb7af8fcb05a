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

// A document is what performance.json holds: everything that the tables and
// plots are made from.
type document struct {
	Machine machine `json:"machine"`
	Parts   []part  `json:"parts"`
	Rows    []*row  `json:"rows"`
}

// A part is one trip's story.
type part struct {
	Suite   string   `json:"suite"`
	Vehicle string   `json:"vehicle"`
	Date    string   `json:"date"`
	Command string   `json:"command"`
	Commit  string   `json:"commit"`
	Runs    int      `json:"runs"`
	Seconds int      `json:"seconds"`
	Missing []string `json:"missing,omitempty"` // what has no figures, and why
}

// readDocument gives an empty one where there is none.
func readDocument(file string) (d document, err error) {
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, nil
	case err != nil:
		return d, err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// replace puts a part in the place of an older one of the same suite and vehicle,
// in the order of trips.
func (d *document) replace(p part, rows []*row) {
	d.Parts = slices.DeleteFunc(d.Parts, func(old part) bool { return old.Suite == p.Suite && old.Vehicle == p.Vehicle })
	d.Rows = slices.DeleteFunc(d.Rows, func(old *row) bool { return old.Suite == p.Suite && old.Vehicle == p.Vehicle })
	d.Parts, d.Rows = append(d.Parts, p), append(d.Rows, rows...)
	place := func(suite, vehicle string) int {
		return slices.IndexFunc(trips, func(t trip) bool { return t.suite == suite && t.vehicle.name == vehicle })
	}
	slices.SortStableFunc(d.Parts, func(a, b part) int { return place(a.Suite, a.Vehicle) - place(b.Suite, b.Vehicle) })
	slices.SortStableFunc(d.Rows, func(a, b *row) int { return place(a.Suite, a.Vehicle) - place(b.Suite, b.Vehicle) })
}

// encode writes a row a line, so that a difference between two can be read.
func (d document) encode() ([]byte, error) {
	var b bytes.Buffer
	head, err := json.MarshalIndent(struct {
		Machine machine `json:"machine"`
		Parts   []part  `json:"parts"`
	}{d.Machine, d.Parts}, "", " ")
	if err != nil {
		return nil, err
	}
	b.Write(bytes.TrimSuffix(head, []byte("\n}")))
	b.WriteString(",\n \"rows\": [")
	for i, r := range d.Rows {
		if i > 0 {
			b.WriteByte(',')
		}
		line, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		b.WriteString("\n  ")
		b.Write(line)
	}
	b.WriteString("\n ]\n}\n")
	return b.Bytes(), nil
}
