//go:build linux

package main

import (
	"bytes"
	_ "embed"
	"os"
	"path/filepath"
	"text/template"
)

// pageText is the template of the page. It has the whole text except for the figures.
//
//go:embed performance.md.tmpl
var pageText string

// paths names the files that a run writes.
type paths struct {
	page    string // docs/performance.md
	results string // data of the page
	figures string // all figures of the run
}

// publish writes the results and the page.
func (s summary) publish(to paths) error {
	t, err := template.New("performance.md").Parse(pageText)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := t.Execute(&page, s); err != nil {
		return err
	}
	results, err := s.encode()
	if err != nil {
		return err
	}
	if err := write(to.results, results); err != nil {
		return err
	}
	return write(to.page, page.Bytes())
}

func write(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o666)
}
